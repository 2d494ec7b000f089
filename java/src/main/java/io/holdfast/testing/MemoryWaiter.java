package io.holdfast.testing;

import java.util.concurrent.CompletableFuture;

/** An acquire in the queue. It ends with a hold, with null when its time is up, or by a failure. */
final class MemoryWaiter extends CompletableFuture<MemoryHold> {
    final MemoryRequest request;
    private final long since = System.nanoTime();

    MemoryWaiter(MemoryRequest request) {
        this.request = request;
    }

    void granted(MemoryHold hold) {
        request.client().left(this);
        request.client().waited++;
        request.client().waitedNanos += System.nanoTime() - since;
        complete(hold);
    }
}
