package io.holdfast;

/** The caller does not hold the lock. Nothing was changed. */
public class LockNotHeldException extends IllegalMonitorStateException {
    private static final long serialVersionUID = 1;

    public LockNotHeldException(String message) {
        super(message);
    }
}
