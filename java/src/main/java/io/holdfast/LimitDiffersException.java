package io.holdfast;

/**
 * A limit is stored with the name, and the acquire gives another number of permits. The message has
 * both. {@link HoldfastClient#limit(String, long)} changes the stored number; a lock without {@code
 * permits} follows it.
 */
public final class LimitDiffersException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message both numbers
     */
    public LimitDiffersException(String message) {
        super(message);
    }
}
