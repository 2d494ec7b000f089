package io.holdfast.internal.core;

import java.time.Duration;
import java.util.Objects;

/** Durations as whole milliseconds, the core's unit. */
public final class Millis {
    /** The core's HF_NEVER and HF_FOREVER, without its library. */
    public static final long ENDLESS = -1;

    /** The core's HF_STORED: the lease of the gate whose rate is stored with its name. */
    public static final long STORED = -2;

    /** The longest duration: {@code Hold.FOREVER}. */
    public static final Duration FOREVER = Duration.ofMillis(Long.MAX_VALUE);

    private static final Duration SHORTEST_TTL = Duration.ofSeconds(10);
    private static final Duration LONGEST = Duration.ofDays(3650);

    private Millis() {}

    /** Rounds up, so that no duration becomes shorter. */
    public static long of(Duration duration) {
        return duration.compareTo(FOREVER) >= 0
                ? Long.MAX_VALUE
                : duration.plusNanos(999_999).toMillis();
    }

    /** Returns a duration as a timeout. */
    public static long timeout(Duration duration) {
        return duration.compareTo(FOREVER) >= 0 ? ENDLESS : of(duration);
    }

    public static long positive(Duration duration, String what) {
        Objects.requireNonNull(duration, what);
        if (duration.isNegative() || duration.isZero()) {
            throw new IllegalArgumentException("the " + what + " must be positive: " + duration);
        }
        return of(duration);
    }

    public static Duration notNegative(Duration timeout) {
        Objects.requireNonNull(timeout, "timeout");
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout must not be negative: " + timeout);
        }
        return timeout;
    }

    /** Returns the time for which a result of once() is kept; refuses one out of bounds. */
    public static long ttl(Duration ttl) {
        if (ttl.compareTo(SHORTEST_TTL) < 0 || ttl.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException("a ttl takes 10 seconds to 10 years: " + ttl);
        }
        return of(ttl);
    }

    /** Returns the least time for which a hold is kept; refuses one out of bounds. */
    public static long upToLongest(Duration duration) {
        if (duration.isNegative() || duration.compareTo(LONGEST) > 0) {
            throw new IllegalArgumentException(
                    "the duration must be from zero to 10 years: " + duration);
        }
        return of(duration);
    }

    public static Duration toDuration(long millis) {
        return millis == ENDLESS ? FOREVER : Duration.ofMillis(millis);
    }
}
