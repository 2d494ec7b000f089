package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;

/**
 * Several locks that are acquired all or none. {@link HoldfastClient#locksAll(String...)} makes it
 * for names, and {@link HoldfastClient#locksAll(Collection)} for locks of mixed kinds.
 *
 * <pre>{@code
 * try (Holds holds = client.locksAll("account:1", "account:2").acquire(Duration.ofSeconds(5))) {
 *     transfer(holds.fences());
 * }
 * }</pre>
 *
 * <p>They are taken one after the other, in the order of the bytes of their names. So callers that
 * give them in other orders do not wait for each other for ever; a caller that holds one of them
 * already may. One deadline is for all. What was taken is released if the rest cannot be had. If
 * the lease of one ends while the next are waited for, all is begun again.
 *
 * <p>Any thread may use it. Owners are those of {@link HoldfastLock}.
 */
public final class HoldfastLocks {
    private static final int MAX = Core.HF_JOIN_MAX;

    private final List<String> names;
    /** In the order in which they are taken. */
    private final Map<String, HoldfastLock> locks = new LinkedHashMap<>();

    HoldfastLocks(List<HoldfastLock> given) {
        if (given.isEmpty() || given.size() > MAX) {
            throw new IllegalArgumentException(
                    given.size() + " locks: it takes 1 to " + MAX + " at once");
        }
        this.names = given.stream().map(HoldfastLock::getName).toList();
        if (new HashSet<>(names).size() < names.size()) {
            throw new IllegalArgumentException("a lock is given twice among " + names);
        }
        given.stream()
                .sorted(Comparator.comparing(lock -> Bytes.of(lock.getName()), Arrays::compareUnsigned))
                .forEach(lock -> locks.put(lock.getName(), lock));
    }

    /**
     * Acquires all, and waits without limit.
     *
     * @return the holds; close them
     * @throws InterruptedException if the thread is interrupted before all are acquired
     * @throws LockUnknownException if an answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Holds acquire() throws InterruptedException {
        return take(new Limit(null));
    }

    /**
     * Acquires all, and waits while others hold one of them.
     *
     * @param timeout how long to wait; zero tries each once
     * @return the holds; close them
     * @throws LockTimeoutException if others kept one of them: then none is held
     * @throws InterruptedException if the thread is interrupted before all are acquired
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if an answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Holds acquire(Duration timeout) throws InterruptedException {
        return take(new Limit(Objects.requireNonNull(timeout, "timeout")));
    }

    /**
     * Starts to acquire all, and waits without a thread and without limit, as {@link
     * HoldfastLock#acquireAsync()}. Cancelling the future gives all up.
     *
     * @return the holds, which you close; or the exceptions of {@link #acquire()}
     */
    public CompletableFuture<Holds> acquireAsync() {
        return begin(new Limit(null));
    }

    /**
     * Starts to acquire all, and waits a limited time, as {@link
     * HoldfastLock#acquireAsync(Duration)}. Cancelling the future gives all up.
     *
     * @param timeout how long to wait; zero tries each once
     * @return the holds, which you close; or the exceptions of {@link #acquire(Duration)}
     * @throws IllegalArgumentException if the timeout is negative
     */
    public CompletableFuture<Holds> acquireAsync(Duration timeout) {
        return begin(new Limit(Objects.requireNonNull(timeout, "timeout")));
    }

    /** The one deadline of all. */
    static final class Limit {
        private static final Duration LEAST = Duration.ofMillis(1);

        private final Duration timeout;
        private final long start = System.nanoTime();

        /** Null: none. */
        Limit(Duration timeout) {
            this.timeout = timeout == null ? null : Millis.notNegative(timeout);
        }

        private Duration left() {
            return timeout.minusNanos(System.nanoTime() - start);
        }

        /** For the next; zero would say that a lock is busy, not that the time is up. */
        Duration next() {
            if (timeout.isZero()) {
                return timeout;
            }
            Duration left = left();
            return left.compareTo(LEAST) > 0 ? left : LEAST;
        }

        Hold acquire(HoldfastLock lock) throws InterruptedException {
            return timeout == null ? lock.acquire() : lock.acquire(next());
        }

        CompletableFuture<Hold> start(HoldfastLock lock) {
            return timeout == null ? lock.acquireAsync() : lock.acquireAsync(next());
        }

        boolean isUp() {
            return timeout != null && left().compareTo(Duration.ZERO) <= 0;
        }
    }

    /** Refuses to begin again if the time is up. */
    void refuseIfLate(Limit limit, LockLostException lost, Map<String, Hold> taken) {
        if (!limit.isUp()) {
            return;
        }
        Optional<LossCause> outage = Optional.of(LossCause.UNREACHABLE);
        if (taken.values().stream().map(Hold::lossCause).anyMatch(outage::equals)) {
            throw new ConnectionFailedException( // no other owner need hold one
                    "a lease ended before the server could be told to renew it, while the"
                            + " other locks were waited for: "
                            + lost.getMessage());
        }
        String ended =
                taken.keySet().stream()
                        .filter(name -> taken.get(name).lossCause().isPresent())
                        .findFirst()
                        .orElse(names.get(0));
        throw new LockTimeoutException(
                "a lease ended while the other locks were waited for, and the time is up: "
                        + lost.getMessage(),
                ended,
                limit.timeout,
                () -> locks.get(ended).inspect().holders());
    }

    private Holds take(Limit limit) throws InterruptedException {
        for (; ; ) {
            Map<String, Hold> taken = new LinkedHashMap<>();
            Holds holds = null;
            try {
                for (HoldfastLock lock : locks.values()) {
                    taken.put(lock.getName(), limit.acquire(lock));
                }
                holds = joined(taken);
                return holds;
            } catch (LockLostException lost) {
                refuseIfLate(limit, lost, taken);
            } finally {
                if (holds == null) {
                    taken.values().forEach(HoldfastLocks::giveBack);
                }
            }
        }
    }

    private Holds joined(Map<String, Hold> taken) {
        List<Hold> all = new ArrayList<>(taken.values());
        all.get(0).join(all.subList(1, all.size()));
        Map<String, Hold> asGiven = new LinkedHashMap<>();
        names.forEach(name -> asGiven.put(name, taken.get(name)));
        return new Holds(asGiven);
    }

    private static void giveBack(Hold hold) {
        try {
            hold.close();
        } catch (HoldfastException | LockNotHeldException | ClosedException e) {
            // It ends with its lease; what is thrown already says more.
        }
    }

    private CompletableFuture<Holds> begin(Limit limit) {
        Attempt attempt = new Attempt(limit);
        attempt.whenComplete((holds, failure) -> attempt.leave());
        attempt.next();
        return attempt;
    }

    /** An acquire of all that waits without a thread. Its steps follow each other. */
    private final class Attempt extends CompletableFuture<Holds> {
        private final Limit limit;
        private final Map<String, Hold> taken = new LinkedHashMap<>();
        private Iterator<HoldfastLock> order = locks.values().iterator();
        private volatile CompletableFuture<Hold> underWay;

        Attempt(Limit limit) {
            this.limit = limit;
        }

        /** Cancels what is under way, if the user has cancelled or completed this. */
        void leave() {
            CompletableFuture<Hold> acquire = underWay;
            if (isDone() && acquire != null) {
                acquire.cancel(true);
            }
        }

        void next() {
            if (!order.hasNext()) {
                finish();
                return;
            }
            HoldfastLock lock = order.next();
            CompletableFuture<Hold> acquire = limit.start(lock);
            underWay = acquire;
            leave(); // it was cancelled just before
            acquire.whenComplete(
                    (hold, failure) -> {
                        if (failure != null) {
                            giveUp(failure);
                        } else {
                            taken.put(lock.getName(), hold);
                            next();
                        }
                    });
        }

        private void finish() {
            try {
                if (!complete(joined(taken))) {
                    giveUp(null);
                }
            } catch (LockLostException lost) {
                again(lost);
            } catch (RuntimeException e) {
                giveUp(e);
            }
        }

        private void again(LockLostException lost) {
            try {
                refuseIfLate(limit, lost, taken);
                release().whenComplete((done, failure) -> next());
            } catch (LockTimeoutException | ConnectionFailedException late) {
                giveUp(late);
            }
        }

        private void giveUp(Throwable failure) {
            Throwable why = failure instanceof CompletionException ? failure.getCause() : failure;
            release()
                    .whenComplete(
                            (done, failed) -> {
                                if (why != null) {
                                    completeExceptionally(why);
                                }
                            });
        }

        private CompletableFuture<Void> release() {
            CompletableFuture<?>[] releases =
                    taken.values().stream()
                            .map(Hold::releaseAsync)
                            .toArray(CompletableFuture<?>[]::new);
            taken.clear();
            order = locks.values().iterator();
            return CompletableFuture.allOf(releases);
        }
    }

    /** For people to read; sends nothing. */
    @Override
    public String toString() {
        return "HoldfastLocks" + names;
    }
}
