package io.holdfast;

/** The server cannot be reached. Nothing was done. */
public final class ConnectionFailedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public ConnectionFailedException(String message) {
        super(message);
    }
}
