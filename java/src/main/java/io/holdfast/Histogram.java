package io.holdfast;

import io.holdfast.internal.core.Core;
import java.time.Duration;
import java.util.List;
import java.util.stream.LongStream;

/**
 * Durations, in buckets.
 *
 * @param counts the number of durations in each bucket: in those of {@link #BOUNDS}, and in a last
 *     bucket for all greater durations
 * @param sum the sum of the durations
 */
public record Histogram(List<Long> counts, Duration sum) {
    /**
     * The upper bound of each bucket but the last: 64 microseconds, and each twice the bound before
     * it, up to 2147 seconds.
     */
    public static final List<Duration> BOUNDS =
            LongStream.range(0, Core.HF_BUCKETS - 1)
                    .mapToObj(i -> Duration.ofNanos(Core.HF_BUCKET_US * 1000L << i))
                    .toList();

    /**
     * The number of durations that were measured.
     *
     * @return the sum of the counts
     */
    public long count() {
        return counts.stream().mapToLong(Long::longValue).sum();
    }
}
