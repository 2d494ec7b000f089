package io.holdfast;

/** The client is closed, or was closed during the wait. Nothing is held. */
public final class ClosedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public ClosedException(String message) {
        super(message);
    }
}
