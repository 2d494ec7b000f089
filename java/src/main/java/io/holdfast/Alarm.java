package io.holdfast;

/**
 * Many acquires of one lock have timed out: its holder may be stuck. See {@link
 * ClientOptions#alarm}.
 *
 * @param name the lock's name; bytes of it that are not UTF-8 appear as {@code \\xff}
 * @param timeouts how many acquires of this client timed out within the window
 * @param message the alarm in words, with the last holder of the lock, if the server knew it
 */
public record Alarm(String name, long timeouts, String message) {}
