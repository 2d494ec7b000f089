package io.holdfast;

/**
 * The acquire would wait for the caller itself, which holds the lock: either shared, while it asks for
 * an exclusive or a heavier hold, or as a {@link Hold}, in which nothing nests. That hold
 * stays; release it first.
 */
public final class LockDeadlockException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public LockDeadlockException(String message) {
        super(message);
    }
}
