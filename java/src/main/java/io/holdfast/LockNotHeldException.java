package io.holdfast;

/** The caller does not hold the lock. Nothing was changed. */
public class LockNotHeldException extends IllegalMonitorStateException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public LockNotHeldException(String message) {
        super(message);
    }
}
