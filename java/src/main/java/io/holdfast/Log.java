package io.holdfast;

import java.lang.System.Logger.Level;

/** The library's logger. */
final class Log {
    private static final System.Logger LOGGER = System.getLogger("io.holdfast");

    private Log() {}

    static void log(Level level, String format, Object... parameters) {
        LOGGER.log(level, format, parameters);
    }

    static void log(Level level, String message, Throwable cause) {
        LOGGER.log(level, message, cause);
    }
}
