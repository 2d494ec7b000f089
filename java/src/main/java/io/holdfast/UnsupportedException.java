package io.holdfast;

/** The server is too old or of the wrong kind, or the URL's scheme is not supported. */
public final class UnsupportedException extends HoldfastException {
    private static final long serialVersionUID = 1;

    public UnsupportedException(String message) {
        super(message);
    }
}
