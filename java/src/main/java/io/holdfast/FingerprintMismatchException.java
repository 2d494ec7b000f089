package io.holdfast;

/**
 * The call of this name was made with other arguments, or in the other mode. Nothing was done.
 * Another call takes another name.
 */
public final class FingerprintMismatchException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what does not match
     */
    public FingerprintMismatchException(String message) {
        super(message);
    }
}
