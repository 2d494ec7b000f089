package io.holdfast;

/** What answered does not speak the Redis protocol, or answers nonsense. */
public final class ProtocolException extends HoldfastException {
    private static final long serialVersionUID = 1;

    ProtocolException(String message) {
        super(message);
    }
}
