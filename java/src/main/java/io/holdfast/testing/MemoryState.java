package io.holdfast.testing;

import io.holdfast.LockHolder;
import io.holdfast.LockInfo;
import io.holdfast.LockWaiter;
import io.holdfast.LossCause;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** What a server knows of one lock. The mutex guards it. */
final class MemoryState {
    private static final int VIEW_MAX = 100;

    final InMemoryHoldfast server;
    /** Of one owner, the oldest first. */
    final List<MemoryHold> holds = new ArrayList<>();

    final List<MemoryWaiter> queue = new ArrayList<>();
    private long fence;

    MemoryState(InMemoryHoldfast server) {
        this.server = server;
    }

    /** A hold, or null if somebody else has it. */
    MemoryHold grant(MemoryRequest request) {
        boolean nests =
                !holds.isEmpty()
                        && request.nestsIn(holds.get(0).request)
                        && (request.isNamed() || holds.stream().anyMatch(MemoryHold::isInHand));
        if (!holds.isEmpty() && !nests) {
            return null;
        }
        fence = nests ? fence : server.nextFence();
        MemoryHold hold = new MemoryHold(this, request, fence);
        begin(hold);
        return hold;
    }

    void begin(MemoryHold hold) {
        holds.add(hold);
        hold.lock.client.holds.add(hold);
        hold.arm();
    }

    /** A hold has ended. */
    void remove(MemoryHold hold) {
        if (holds.remove(hold)) {
            hold.lock.client.holds.remove(hold);
            hold.disarm();
            serve();
        }
    }

    long fence() {
        return fence;
    }

    LockInfo seen(byte[] name, long first) {
        boolean held = !holds.isEmpty();
        Duration remaining =
                holds.stream().map(MemoryHold::left).max(Duration::compareTo).orElse(Duration.ZERO);
        List<LockWaiter> waiters =
                queue.stream().skip(first).limit(VIEW_MAX).map(MemoryWaiter::seen).toList();
        return new LockInfo(
                name.clone(),
                held,
                false,
                false,
                holds.size(),
                queue.size(),
                remaining,
                Duration.ZERO,
                false,
                holds.size() > first ? List.of(holder(remaining, first)) : List.of(),
                waiters);
    }

    private LockHolder holder(Duration remaining, long first) {
        MemoryHold oldest = holds.get(0);
        byte[] owner = ((ByteBuffer) oldest.request.owner()).array().clone();
        return new LockHolder(
                owner, false, fence, holds.size() - first, oldest.age(), remaining);
    }

    boolean lose(LossCause cause) {
        boolean held = !holds.isEmpty();
        List.copyOf(holds).forEach(hold -> hold.lose(cause));
        return held;
    }

    /** Gives a free lock to whoever waits first, and to the same owner's others. */
    private void serve() {
        for (Iterator<MemoryWaiter> each = queue.iterator(); each.hasNext(); ) {
            MemoryWaiter waiter = each.next();
            MemoryHold hold = grant(waiter.request);
            if (hold == null) {
                return;
            }
            each.remove();
            waiter.granted(hold);
        }
    }
}
