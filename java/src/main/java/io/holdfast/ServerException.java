package io.holdfast;

/** The server answered with an error. Nothing was done. */
public final class ServerException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public ServerException(String message) {
        super(message);
    }
}
