package io.holdfast.internal.core;

import java.lang.System.Logger.Level;

/** The library's logger. */
public final class Log {
    private static final System.Logger LOGGER = System.getLogger("io.holdfast");

    private Log() {}

    public static void log(Level level, String format, Object... parameters) {
        say(() -> LOGGER.log(level, format, parameters));
    }

    public static void log(Level level, String message, Throwable cause) {
        say(() -> LOGGER.log(level, message, cause));
    }

    /** The program's logger may throw: what is logged, such as a loss, goes on all the same. */
    private static void say(Runnable what) {
        try {
            what.run();
        } catch (RuntimeException | Error e) {
            return; // there is no other place for it
        }
    }
}
