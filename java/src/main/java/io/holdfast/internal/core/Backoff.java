package io.holdfast.internal.core;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/** Pauses between failed tries: each up to twice as long as the one before. */
public final class Backoff {
    private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long LONGEST = TimeUnit.SECONDS.toNanos(30);

    private long limit = SHORTEST;

    /** Returns the next pause: half of its limit to all of it, so that hosts do not try in step. */
    public long nanos() {
        long pause = limit - ThreadLocalRandom.current().nextLong(limit / 2);
        limit = Math.min(2 * limit, LONGEST);
        return pause;
    }

    /** Starts again with the shortest pause, after a successful try. */
    public void reset() {
        limit = SHORTEST;
    }
}
