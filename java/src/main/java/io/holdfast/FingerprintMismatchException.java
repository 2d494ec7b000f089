package io.holdfast;

/**
 * The call of this name was made with other arguments, or in the other mode. Nothing was
 * done. Use another name for another call.
 */
public final class FingerprintMismatchException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what does not match
     */
    public FingerprintMismatchException(String message) {
        super(message);
    }
}
