package io.holdfast;

/**
 * Many acquires of one lock have timed out: its holder may be stuck. See {@link
 * ClientOptions#alarm}.
 *
 * @param name the lock's name; of a name that is not UTF-8, the bytes that are not as {@code \\xff}
 * @param timeouts how many acquires of this client timed out within the window
 * @param message the same in words, and the last holder of the lock, if the server knew it
 */
public record Alarm(String name, long timeouts, String message) {}
