package io.holdfast;

/** The server answered with an error. Nothing was done. */
public final class ServerException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public ServerException(String message) {
        super(message);
    }
}
