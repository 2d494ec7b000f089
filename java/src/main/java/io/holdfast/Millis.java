package io.holdfast;

import java.time.Duration;

/** Durations as whole milliseconds, the core's unit. */
final class Millis {
    /** The core's HF_NEVER and HF_FOREVER, without its library. */
    static final long ENDLESS = -1;

    private Millis() {}

    /** Rounded up, so that nothing is shorter than asked for. */
    static long of(Duration duration) {
        return duration.compareTo(Hold.FOREVER) >= 0
                ? Long.MAX_VALUE
                : duration.plusNanos(999_999).toMillis();
    }

    /** As a timeout. */
    static long timeout(Duration duration) {
        return duration.compareTo(Hold.FOREVER) >= 0 ? ENDLESS : of(duration);
    }

    static long positive(Duration duration, String what) {
        if (duration.isNegative() || duration.isZero()) {
            throw new IllegalArgumentException("the " + what + " must be positive: " + duration);
        }
        return of(duration);
    }

    static Duration toDuration(long millis) {
        return millis == ENDLESS ? Hold.FOREVER : Duration.ofMillis(millis);
    }
}
