package io.holdfast;

/** The server refused the user or the password. */
public final class AuthenticationException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For those who put something else in a client's place.
     *
     * @param message what went wrong
     */
    public AuthenticationException(String message) {
        super(message);
    }
}
