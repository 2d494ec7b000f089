package io.holdfast;

/** The server refused the user or the password. */
public final class AuthenticationException extends HoldfastException {
    private static final long serialVersionUID = 1;

    public AuthenticationException(String message) {
        super(message);
    }
}
