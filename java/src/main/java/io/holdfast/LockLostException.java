package io.holdfast;

/**
 * The hold was lost before: its lease ended, or its key was taken away. Somebody else may have held
 * the lock since; only the {@linkplain Hold#fence() fence} protected the resource then.
 */
public final class LockLostException extends LockNotHeldException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public LockLostException(String message) {
        super(message);
    }
}
