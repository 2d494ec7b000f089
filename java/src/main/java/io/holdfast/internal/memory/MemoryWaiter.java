package io.holdfast.internal.memory;

import io.holdfast.LockWaiter;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** An acquire in the queue. It ends with a hold, with null when its time is up or it has a result, or by a failure. */
final class MemoryWaiter extends CompletableFuture<MemoryHold> {
    final MemoryRequest request;
    private final long since = System.nanoTime();
    private final Duration timeout;
    /** Whether a result will do. */
    final boolean once;
    /** What another left, once this has ended with null because of it. */
    volatile byte[] result;

    MemoryWaiter(MemoryRequest request, Duration timeout, boolean once) {
        this.once = once;
        this.request = request;
        this.timeout = timeout;
    }

    LockWaiter seen() {
        byte[] owner = ((ByteBuffer) request.owner()).array().clone();
        Duration waited = Duration.ofNanos(System.nanoTime() - since);
        long permits = request.shares() ? request.options().permits() : 0;
        return new LockWaiter(owner, request.shares(), permits, waited, timeout);
    }

    void done(byte[] left) {
        request.book().counts.done();
        result = left;
        complete(null);
    }

    void granted(MemoryHold hold) {
        Duration waited = Duration.ofNanos(System.nanoTime() - since);
        request.book().counts.acquired(waited, true);
        complete(hold);
    }
}
