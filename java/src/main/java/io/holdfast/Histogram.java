package io.holdfast;

import io.holdfast.internal.core.Core;
import java.time.Duration;
import java.util.List;
import java.util.stream.LongStream;

/**
 * How long things took.
 *
 * @param counts how many times each bucket has: those of {@link #BOUNDS}, and a last one for all
 *     times above
 * @param sum the sum of the times
 */
public record Histogram(List<Long> counts, Duration sum) {
    /**
     * Up to what time each bucket but the last goes: 64 microseconds, and each twice as much as the
     * one before, up to 2147 seconds.
     */
    public static final List<Duration> BOUNDS =
            LongStream.range(0, Core.HF_BUCKETS - 1)
                    .mapToObj(i -> Duration.ofNanos(Core.HF_BUCKET_US * 1000L << i))
                    .toList();

    /**
     * How many times were measured.
     *
     * @return the sum of the counts
     */
    public long count() {
        return counts.stream().mapToLong(Long::longValue).sum();
    }
}
