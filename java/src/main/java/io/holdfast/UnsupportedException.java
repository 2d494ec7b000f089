package io.holdfast;

/**
 * The server is too old or of the wrong kind, the URL's scheme is not supported, or several masters
 * cannot do this.
 */
public final class UnsupportedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public UnsupportedException(String message) {
        super(message);
    }
}
