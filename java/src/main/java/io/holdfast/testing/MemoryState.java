package io.holdfast.testing;

import io.holdfast.LockHolder;
import io.holdfast.LockInfo;
import io.holdfast.LockWaiter;
import io.holdfast.LossCause;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** What a server knows of one lock. The mutex guards it. */
final class MemoryState {
    private static final int VIEW_MAX = 100;

    final InMemoryHoldfast server;
    /** The oldest first. */
    final List<MemoryHold> holds = new ArrayList<>();

    final List<MemoryWaiter> queue = new ArrayList<>();
    private byte[] result;
    private long resultEnds;

    MemoryState(InMemoryHoldfast server) {
        this.server = server;
    }

    /** The oldest exclusive hold; null if it is free or held shared. */
    MemoryHold exclusive() {
        return holds.stream().filter(hold -> !hold.lock.shares).findFirst().orElse(null);
    }

    /** Whether its owner would wait for its own shared hold. */
    boolean deadlocks(MemoryRequest request) {
        return !request.lock().shares && exclusive() == null && own(request) != null;
    }

    /** A hold that the owner still has through this client; null if there is none. */
    private MemoryHold own(MemoryRequest request) {
        return holds.stream()
                .filter(hold -> request.nestsIn(hold.request) && hold.isInHand())
                .filter(hold -> hold.lock.client == request.client())
                .findFirst()
                .orElse(null);
    }

    /** The hold in which it nests; null if there is none. */
    private MemoryHold outer(MemoryRequest request) {
        MemoryHold exclusive = exclusive();
        if (exclusive == null) {
            return request.lock().shares ? own(request) : null;
        }
        boolean nests =
                request.nestsIn(exclusive.request)
                        && (request.isNamed() || holds.stream().anyMatch(MemoryHold::isInHand));
        return nests ? exclusive : null;
    }

    /** A hold, or null if others have it, or came before. */
    MemoryHold grant(MemoryRequest request, boolean isFirst) {
        MemoryHold outer = outer(request);
        if (!holds.isEmpty() && outer == null && !(isFirst && joins(request))) {
            return null;
        }
        long fence = outer != null ? outer.fence() : server.nextFence();
        MemoryHold hold = new MemoryHold(this, request, fence);
        begin(hold);
        return hold;
    }

    /** Whether it may hold the lock beside those that hold it. */
    private boolean joins(MemoryRequest request) {
        long permits = request.lock().options.permits();
        return request.lock().shares
                && exclusive() == null
                && (permits == 0 || holds.size() < permits);
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

    LockInfo seen(byte[] name, long first) {
        Duration remaining =
                holds.stream().map(MemoryHold::left).max(Duration::compareTo).orElse(Duration.ZERO);
        List<LockWaiter> waiters =
                queue.stream().skip(first).limit(VIEW_MAX).map(MemoryWaiter::seen).toList();
        boolean shared = !holds.isEmpty() && exclusive() == null;
        Map<Long, List<MemoryHold>> nested = new LinkedHashMap<>(); // what nests has one fence
        holds.stream()
                .sorted(Comparator.comparing(MemoryHold::left))
                .skip(first)
                .forEach(
                        hold ->
                                nested.computeIfAbsent(hold.fence(), f -> new ArrayList<>())
                                        .add(hold));
        return new LockInfo(
                name.clone(),
                !holds.isEmpty(),
                false,
                shared,
                holds.size(),
                queue.size(),
                remaining,
                resultStays(),
                false,
                nested.values().stream().map(holds -> holder(holds, shared)).toList(),
                waiters);
    }

    /** Of holds of one owner, the first to end first. */
    private static LockHolder holder(List<MemoryHold> nested, boolean shared) {
        MemoryHold first = nested.get(0);
        MemoryHold last = nested.get(nested.size() - 1);
        byte[] owner = ((ByteBuffer) first.request.owner()).array().clone();
        Duration age =
                nested.stream().map(MemoryHold::age).max(Duration::compareTo).orElseThrow();
        return new LockHolder(owner, shared, first.fence(), nested.size(), age, last.left());
    }

    /** Takes one holder's away. */
    boolean take(long fence) {
        List<MemoryHold> taken = holds.stream().filter(hold -> hold.fence() == fence).toList();
        taken.forEach(hold -> hold.lose(LossCause.GONE));
        return !taken.isEmpty();
    }

    /** What another left, while it stays, or null. */
    byte[] result() {
        return resultStays().isZero() ? null : result;
    }

    private Duration resultStays() {
        long nanos = result == null ? 0 : resultEnds - System.nanoTime();
        return nanos > 0 ? Duration.ofNanos(nanos) : Duration.ZERO;
    }

    /** Leaves a result, also for those who wait for one. */
    void leave(byte[] left, Duration ttl) {
        result = left.clone();
        resultEnds = System.nanoTime() + TimeUnit.NANOSECONDS.convert(ttl);
        for (MemoryWaiter waiter : List.copyOf(queue)) {
            if (waiter.once) {
                queue.remove(waiter);
                waiter.done(left.clone());
            }
        }
    }

    boolean lose(LossCause cause) {
        boolean held = !holds.isEmpty();
        List.copyOf(holds).forEach(hold -> hold.lose(cause));
        return held;
    }

    /** Lets in who waits first, and those behind it that fit beside it. */
    private void serve() {
        for (Iterator<MemoryWaiter> each = queue.iterator(); each.hasNext(); ) {
            MemoryWaiter waiter = each.next();
            MemoryHold hold = grant(waiter.request, true);
            if (hold == null) {
                return;
            }
            each.remove();
            waiter.granted(hold);
        }
    }
}
