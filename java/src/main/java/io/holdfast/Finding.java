package io.holdfast;

/**
 * One setting of a server; {@link HoldfastClient#survey(String)} finds them.
 *
 * @param level how it is meant
 * @param subject what it is about, like {@code eviction} or {@code persistence}
 * @param server the server, without user and password
 * @param text one sentence for people
 */
public record Finding(Level level, String subject, String server, String text) {
    /** How a finding is meant. */
    public enum Level {
        /** As it should be. */
        GOOD,
        /** Worth knowing; or it cannot be known, and the text says why. */
        NOTE,
        /** Locks can be lost, or the client cannot work. The text says what to do. */
        WARNING
    }
}
