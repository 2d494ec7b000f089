package io.holdfast.internal.memory;

import io.holdfast.Hold;
import io.holdfast.Holds;
import io.holdfast.RefusalCause;
import io.holdfast.internal.core.Awaited;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

/** Acquires several locks in memory at once. */
final class MemoryLocksAll {
    private static final Duration LEAST = Duration.ofMillis(1);

    private final MemoryServer server;
    private final List<MemoryLock> locks;
    /** In the order in which they are acquired. */
    private final List<MemoryLock> order;

    MemoryLocksAll(MemoryServer server, List<MemoryLock> locks) {
        this.server = server;
        this.locks = locks;
        this.order =
                locks.stream()
                        .sorted(Comparator.comparing(MemoryLock::name, Arrays::compareUnsigned))
                        .toList();
    }

    CompletableFuture<Holds> begin(Duration timeout, boolean byThread) {
        Function<MemoryLock, MemoryRequest> request =
                byThread ? MemoryLock::threads : MemoryLock::started;
        Group group =
                new Group(
                        byThread ? new Awaited<>() : new CompletableFuture<>(),
                        timeout,
                        order.stream().map(request).toList());
        server.run(group::next);
        group.future.whenComplete((holds, failure) -> server.run(group::leave));
        return group.future;
    }

    /** One acquire of all locks. The mutex guards it. */
    private final class Group {
        final CompletableFuture<Holds> future;
        private final Duration timeout;
        private final List<MemoryRequest> requests;
        private final long start = System.nanoTime();
        private final Map<MemoryLock, MemoryHold> taken = new LinkedHashMap<>();
        private MemoryWaiter waiter;

        Group(
                CompletableFuture<Holds> future, Duration timeout, List<MemoryRequest> requests) {
            this.future = future;
            this.timeout = timeout;
            this.requests = requests;
        }

        /** Ends the current acquire, if the user has cancelled or completed the future. */
        void leave() {
            if (waiter != null && current().leave(waiter, RefusalCause.CANCELLED)) {
                giveBack();
            }
        }

        private MemoryLock current() {
            return order.get(taken.size());
        }

        /** Returns the time left for the next lock, never zero: with zero a lock would be busy, and not time out. */
        private Duration left() {
            if (timeout.equals(Hold.FOREVER) || timeout.isZero()) {
                return timeout;
            }
            Duration left = timeout.minusNanos(System.nanoTime() - start);
            return left.compareTo(LEAST) > 0 ? left : LEAST;
        }

        void next() {
            MemoryLock lock = current();
            Duration left = left();
            waiter = new MemoryWaiter(requests.get(taken.size()), left, null);
            try {
                lock.start(waiter, left);
            } catch (RuntimeException e) {
                end(e);
                return;
            }
            Runnable timer = lock.limit(waiter, left);
            waiter.whenComplete(
                    (hold, failure) -> {
                        timer.run();
                        if (failure != null || hold == null) {
                            end(failure != null ? failure : lock.timedOut(timeout));
                            return;
                        }
                        taken.put(lock, hold);
                        if (taken.size() < order.size()) {
                            next();
                        } else if (taken.values().stream().allMatch(MemoryHold::isValid)) {
                            MemoryHold.join(taken.values());
                            end(null);
                        } else { // a lease has ended meanwhile
                            giveBack();
                            next();
                        }
                    });
        }

        private void giveBack() {
            taken.values().forEach(MemoryHold::giveUp);
            taken.clear();
            waiter = null;
        }

        /** Completes the future on another thread, because it may run the user's actions. */
        private void end(Throwable failure) {
            Map<String, Hold> holds = new LinkedHashMap<>();
            waiter = null;
            if (failure != null) {
                giveBack();
            } else {
                locks.forEach(lock -> holds.put(lock.shownName(), taken.get(lock)));
            }
            server.actions.execute(
                    () -> {
                        if (failure != null) {
                            future.completeExceptionally(failure);
                        } else if (!future.complete(new Holds(holds))) {
                            server.run(this::giveBack);
                        }
                    });
        }
    }
}
