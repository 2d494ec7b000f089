package io.holdfast;

/** Others kept the lock for the whole timeout. It is not held, and nothing is left behind. */
public class LockTimeoutException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public LockTimeoutException(String message) {
        super(message);
    }
}
