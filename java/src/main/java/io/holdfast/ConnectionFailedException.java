package io.holdfast;

/** The server cannot be reached. Nothing was done. */
public final class ConnectionFailedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public ConnectionFailedException(String message) {
        super(message);
    }
}
