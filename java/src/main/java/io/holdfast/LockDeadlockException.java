package io.holdfast;

/**
 * The caller holds the lock shared and asks for it exclusively: it would wait for itself. The
 * shared hold stays; release it first.
 */
public final class LockDeadlockException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public LockDeadlockException(String message) {
        super(message);
    }
}
