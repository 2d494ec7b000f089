package io.holdfast.spring;

/** The property {@code holdfast.url} is missing or wrong. */
final class HoldfastUrlException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    HoldfastUrlException(String why, Throwable cause) {
        super("holdfast.url: " + why, cause);
    }
}
