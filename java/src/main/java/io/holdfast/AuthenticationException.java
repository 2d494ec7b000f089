package io.holdfast;

/** The server refused the user or the password. */
public final class AuthenticationException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public AuthenticationException(String message) {
        super(message);
    }
}
