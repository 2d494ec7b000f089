package io.holdfast.internal.memory;

import io.holdfast.Hold;
import io.holdfast.LockWaiter;
import io.holdfast.OnceOptions;
import io.holdfast.internal.core.Awaited;
import io.holdfast.internal.core.Millis;
import java.nio.ByteBuffer;
import java.time.Duration;

/** An acquire in the queue. It ends with a hold, with null after its timeout or with a result, or with a failure. */
final class MemoryWaiter extends Awaited<MemoryHold> {
    final MemoryRequest request;
    private final long since = System.nanoTime();
    private final Duration timeout;
    /** The options of a call that is made once, for which an outcome will do; or null. */
    final OnceOptions<?> once;
    /** The record of the call, if this has ended with null because of it. */
    volatile MemoryRecord result;

    MemoryWaiter(MemoryRequest request, Duration timeout, OnceOptions<?> once) {
        this.once = once;
        this.request = request;
        this.timeout = Millis.toDuration(Millis.timeout(timeout)); // as a server has it
    }

    LockWaiter seen() {
        byte[] owner = ((ByteBuffer) request.owner()).array().clone();
        Duration ahead = request.options().ahead();
        Duration waited = Duration.ofNanos(System.nanoTime() - since).plus(ahead);
        long permits = request.shares() ? request.options().permits() : 0;
        return new LockWaiter(
                owner,
                request.options().note(),
                request.shares(),
                permits,
                waited,
                timeout.equals(Hold.FOREVER) ? timeout : timeout.plus(ahead),
                request.weight());
    }

    /** Whether it arrived later, after both head starts are subtracted. */
    boolean isBehind(MemoryWaiter other) {
        return place() - other.place() > 0;
    }

    private long place() {
        return since - request.options().ahead().toNanos();
    }

    void done(MemoryRecord left) {
        request.book().counts.answered(left.counted(once));
        result = left;
        complete(null);
    }

    void granted(MemoryHold hold) {
        Duration waited = Duration.ofNanos(System.nanoTime() - since);
        request.book().counts.acquired(waited, true);
        complete(hold);
    }
}
