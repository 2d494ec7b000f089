package io.holdfast;

/** The server does not speak the Redis protocol, or its answer makes no sense. */
public final class ProtocolException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public ProtocolException(String message) {
        super(message);
    }
}
