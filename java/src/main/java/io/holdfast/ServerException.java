package io.holdfast;

/** The server answered with an error. Nothing was done. */
public final class ServerException extends HoldfastException {
    private static final long serialVersionUID = 1;

    public ServerException(String message) {
        super(message);
    }
}
