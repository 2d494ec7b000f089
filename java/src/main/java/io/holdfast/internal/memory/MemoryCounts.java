package io.holdfast.internal.memory;

import io.holdfast.CallOutcome;
import io.holdfast.FailureCause;
import io.holdfast.Histogram;
import io.holdfast.LockStats;
import io.holdfast.LossCause;
import io.holdfast.RefusalCause;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;
import java.util.stream.LongStream;

/** The counts of a client. The mutex of its server guards them. */
final class MemoryCounts {
    private final Map<CallOutcome, Long> answered =
            zeros(CallOutcome.DONE, CallOutcome.FAILED, CallOutcome.UNKNOWN, CallOutcome.MISMATCH);
    private final Map<RefusalCause, Long> refused = zeros(RefusalCause.values());
    private final Map<FailureCause, Long> failed = zeros(FailureCause.values());
    private final Map<CallOutcome, Long> finished =
            zeros(
                    CallOutcome.DONE,
                    CallOutcome.FAILED,
                    CallOutcome.UNKNOWN,
                    CallOutcome.RETRY,
                    CallOutcome.UNKEPT);
    private final Map<LossCause, Long> lost = zeros(LossCause.values());
    private final Times waits = new Times();
    private final Times holds = new Times();
    private long acquired;
    private long queued;
    private long released;
    private long kept;
    private long begun;

    @SafeVarargs
    private static <C extends Enum<C>> Map<C, Long> zeros(C... causes) {
        Map<C, Long> map = new EnumMap<>(causes[0].getDeclaringClass());
        for (C cause : causes) {
            map.put(cause, 0L);
        }
        return map;
    }

    void acquired(Duration waited, boolean inQueue) {
        acquired++;
        queued += inQueue ? 1 : 0;
        waits.add(waited);
    }

    void refused(RefusalCause cause) {
        refused.merge(cause, 1L, Long::sum);
    }

    void answered(CallOutcome outcome) {
        answered.merge(outcome, 1L, Long::sum);
    }

    void begun() {
        begun++;
    }

    void finished(CallOutcome outcome) {
        finished.merge(outcome, 1L, Long::sum);
    }

    void released() {
        released++;
    }

    void kept() {
        kept++;
    }

    void lost(LossCause cause) {
        lost.merge(cause, 1L, Long::sum);
    }

    void held(Duration time) {
        holds.add(time);
    }

    LockStats told(long held, long waiting) {
        return new LockStats(
                held,
                waiting,
                acquired,
                queued,
                Map.copyOf(answered),
                Map.copyOf(refused),
                Map.copyOf(failed),
                released,
                kept,
                begun,
                Map.copyOf(finished),
                Map.copyOf(lost),
                0,
                0,
                waits.told(),
                holds.told());
    }

    private static final class Times {
        private final long[] counts = new long[Histogram.BOUNDS.size() + 1];
        private Duration sum = Duration.ZERO;

        void add(Duration time) {
            int at = 0;
            while (at < Histogram.BOUNDS.size() && time.compareTo(Histogram.BOUNDS.get(at)) > 0) {
                at++;
            }
            counts[at]++;
            sum = sum.plus(time);
        }

        Histogram told() {
            return new Histogram(LongStream.of(counts).boxed().toList(), sum);
        }
    }
}
