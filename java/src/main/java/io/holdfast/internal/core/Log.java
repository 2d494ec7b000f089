package io.holdfast.internal.core;

import java.lang.System.Logger.Level;

/** The library's logger. */
public final class Log {
    private static final System.Logger LOGGER = System.getLogger("io.holdfast");

    private Log() {}

    public static void log(Level level, String format, Object... parameters) {
        LOGGER.log(level, format, parameters);
    }

    public static void log(Level level, String message, Throwable cause) {
        LOGGER.log(level, message, cause);
    }
}
