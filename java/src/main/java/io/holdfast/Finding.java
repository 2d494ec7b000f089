package io.holdfast;

/**
 * One setting of a server; {@link HoldfastClient#survey(String)} finds them.
 *
 * @param level the severity
 * @param subject the subject, like {@code eviction} or {@code persistence}
 * @param server the server, without user and password
 * @param text one sentence for people
 */
public record Finding(Level level, String subject, String server, String text) {
    /** The severity of a finding. */
    public enum Level {
        /** As it should be. */
        GOOD,
        /** Worth knowing; or the setting cannot be read, and the text gives the reason. */
        NOTE,
        /** Locks can be lost, or the client cannot work. The text gives the remedy. */
        WARNING
    }
}
