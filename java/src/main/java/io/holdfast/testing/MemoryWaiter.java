package io.holdfast.testing;

import io.holdfast.LockWaiter;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** An acquire in the queue. It ends with a hold, with null when its time is up, or by a failure. */
final class MemoryWaiter extends CompletableFuture<MemoryHold> {
    final MemoryRequest request;
    private final long since = System.nanoTime();
    private final Duration timeout;

    MemoryWaiter(MemoryRequest request, Duration timeout) {
        this.request = request;
        this.timeout = timeout;
    }

    LockWaiter seen() {
        byte[] owner = ((ByteBuffer) request.owner()).array().clone();
        Duration waited = Duration.ofNanos(System.nanoTime() - since);
        MemoryLock lock = request.lock();
        long permits = lock.shares ? lock.options.permits() : 0;
        return new LockWaiter(owner, lock.shares, permits, waited, timeout);
    }

    void granted(MemoryHold hold) {
        request.client().left(this);
        Duration waited = Duration.ofNanos(System.nanoTime() - since);
        request.client().counts.acquired(waited, true);
        complete(hold);
    }
}
