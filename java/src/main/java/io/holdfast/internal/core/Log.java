package io.holdfast.internal.core;

import java.lang.System.Logger.Level;

/** The library's logger. A program's logger may throw: the event, such as a loss, is handled all the same. */
public final class Log {
    private static final System.Logger LOGGER = System.getLogger("io.holdfast");

    private Log() {}

    public static void log(Level level, String format, Object... parameters) {
        try {
            LOGGER.log(level, format, parameters);
        } catch (RuntimeException | Error e) {
            return; // there is nowhere else to report it
        }
    }

    public static void log(Level level, String message, Throwable cause) {
        try {
            LOGGER.log(level, message, cause);
        } catch (RuntimeException | Error e) {
            return; // there is nowhere else to report it
        }
    }
}
