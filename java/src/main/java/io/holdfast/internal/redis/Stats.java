package io.holdfast.internal.redis;

import io.holdfast.CallOutcome;
import io.holdfast.ClientStats;
import io.holdfast.FailureCause;
import io.holdfast.Histogram;
import io.holdfast.LockStats;
import io.holdfast.LossCause;
import io.holdfast.RefusalCause;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.hf_histogram;
import io.holdfast.internal.core.hf_stats;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.LongStream;

/** Reads a client's counts from the core. */
final class Stats {
    private Stats() {}

    /** Returns the counts; the client must be open. */
    static ClientStats of(long client) {
        try (hf_stats stats = new hf_stats();
                hf_stats one = new hf_stats()) {
            Core.hf_client_stats(client, stats);
            Core.hf_client_name_stats(client, 0, one);
            LockStats others = counts(one);
            Map<String, LockStats> names = new HashMap<>();
            for (long i = 1; i <= stats.getNames(); i++) {
                byte[] name = Core.hf_client_name_stats(client, i, one);
                names.put(Bytes.shown(name), counts(one));
            }
            return new ClientStats(
                    counts(stats), Map.copyOf(names), others, stats.getConnections(), stats.getReconnects());
        }
    }

    private static LockStats counts(hf_stats stats) {
        return new LockStats(
                stats.getHeld(),
                stats.getWaiting(),
                stats.getAcquired(),
                stats.getQueued(),
                Map.of(
                        CallOutcome.DONE, stats.getAnswered_done(),
                        CallOutcome.FAILED, stats.getAnswered_failed(),
                        CallOutcome.UNKNOWN, stats.getAnswered_unknown(),
                        CallOutcome.MISMATCH, stats.getAnswered_mismatch()),
                Map.of(
                        RefusalCause.BUSY, stats.getBusy(),
                        RefusalCause.TIMEOUT, stats.getTimed_out(),
                        RefusalCause.CANCELLED, stats.getCanceled() + stats.getInterrupted(),
                        RefusalCause.DEADLOCK, stats.getDeadlocks(),
                        RefusalCause.REPLICAS, stats.getUnreplicated()),
                Map.of(
                        FailureCause.UNREACHABLE, stats.getUnreachable(),
                        FailureCause.UNKNOWN, stats.getUnknown(),
                        FailureCause.ERROR, stats.getFailed()),
                stats.getReleased(),
                stats.getKept(),
                stats.getBegun(),
                Map.of(
                        CallOutcome.DONE, stats.getFinished_done(),
                        CallOutcome.FAILED, stats.getFinished_failed(),
                        CallOutcome.UNKNOWN, stats.getFinished_unknown(),
                        CallOutcome.RETRY, stats.getFinished_retry(),
                        CallOutcome.UNKEPT, stats.getFinished_unkept()),
                Map.of(
                        LossCause.EXPIRED, stats.getLost_expired(),
                        LossCause.UNREACHABLE, stats.getLost_unreachable(),
                        LossCause.GONE, stats.getLost_gone()),
                stats.getRenewed(),
                stats.getAlarms(),
                histogram(stats.getWait()),
                histogram(stats.getHold()));
    }

    private static Histogram histogram(hf_histogram histogram) {
        return new Histogram(
                LongStream.of(histogram.getCounts()).boxed().toList(),
                Duration.of(histogram.getSum_us(), ChronoUnit.MICROS));
    }
}
