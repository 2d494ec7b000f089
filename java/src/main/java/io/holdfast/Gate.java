package io.holdfast;

import io.holdfast.internal.core.Threads;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;

/**
 * Limits the number of passes in any period, on all hosts together. {@link HoldfastClient#gate}
 * makes it.
 *
 * <pre>{@code
 * Gate geocoder = client.gate("geocoder", 10, Duration.ofMinutes(1));
 * try {
 *     geocoder.enter();
 * } catch (GateFullException full) {
 *     response.header("Retry-After", full.retryAfter().toSeconds() + 1);
 * }
 * }</pre>
 *
 * <p>Without numbers it follows the rate that {@link HoldfastClient#limit(String, long, Duration)}
 * has stored, and throws a {@link LimitDiffersException} if there is none.
 *
 * <p>A pass counts from the moment at which the server granted it, and cannot be given back, not even by
 * the end of the caller or the close of the client. Each pass counts, even within one thread.
 *
 * <p>If a method throws a {@link LockUnknownException} or another {@link HoldfastException}, the
 * caller has not passed. Until that is undone, the server may count a pass that no caller took; it never
 * counts too few. Any thread may call every method; a virtual thread parks.
 */
public final class Gate {
    // A pass is a shared hold with an owner of its own. Its lease is the gate's period.
    private final HoldfastLock lock;
    /** Null: the stored rate applies. */
    private final LockLimit rate;

    private final long weight;

    private Gate(HoldfastLock lock, LockLimit rate, long weight) {
        this.lock = lock.shared(weight);
        this.rate = rate;
        this.weight = weight;
    }

    static Gate of(Function<LockOptions, HoldfastLock> lock, long limit, Duration per) {
        if (limit < 1) {
            throw new IllegalArgumentException("the limit must be at least 1: " + limit);
        }
        LockOptions options = passes(LockOptions.defaults().lease(per)).permits(limit);
        return new Gate(lock.apply(options), new LockLimit(limit, per), 1);
    }

    static Gate of(Function<LockOptions, HoldfastLock> lock) {
        return new Gate(lock.apply(passes(LockOptions.defaults().stored())), null, 1);
    }

    private static LockOptions passes(LockOptions options) {
        return options.renew(false).reentrant(false);
    }

    /**
     * Returns the same gate, of which each call takes several passes. Sends nothing.
     *
     * <pre>{@code
     * geocoder.weight(3).enter(); // three of the ten
     * }</pre>
     *
     * @param weight 1, or up to the limit; no call overtakes a heavier call that waits
     * @return a gate
     * @throws IllegalArgumentException if the weight is wrong
     */
    public Gate weight(long weight) {
        return new Gate(lock, rate, weight);
    }

    /**
     * Passes, or throws at once.
     *
     * @throws GateFullException if all passes are spent
     * @throws LockUnknownException if the answer was lost: you have not passed
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public void enter() {
        if (!tryEnter()) {
            throw full(Duration.ZERO);
        }
    }

    /**
     * Passes, or waits for a pass in one queue with all other callers.
     *
     * @param timeout how long to wait; zero tries once
     * @throws GateFullException if no pass was free in time
     * @throws InterruptedException if the thread is interrupted before it has passed
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if the answer was lost: you have not passed
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public void enter(Duration timeout) throws InterruptedException {
        if (!tryEnter(timeout)) {
            throw full(timeout);
        }
    }

    /**
     * Passes if a pass is free at this moment.
     *
     * @return whether the caller has passed
     * @throws LockUnknownException if the answer was lost: you have not passed
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public boolean tryEnter() {
        boolean interrupted = Thread.interrupted();
        try {
            for (; ; ) {
                try {
                    return tryEnter(Duration.ZERO);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Passes, or waits for a pass in one queue with all other callers.
     *
     * @param timeout how long to wait; zero tries once
     * @return whether the caller has passed
     * @throws InterruptedException if the thread is interrupted before it has passed
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if the answer was lost: you have not passed
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public boolean tryEnter(Duration timeout) throws InterruptedException {
        Hold pass;
        try {
            pass = lock.acquire(timeout);
        } catch (LockTimeoutException full) {
            return false;
        }
        spend(pass, timeout);
        return true;
    }

    /**
     * Starts to pass, and waits for that without a thread. Cancelling the future, or ending it in
     * another way, gives the pass up: a pass that was granted at that moment is given back.
     *
     * @param timeout how long to wait; zero tries once
     * @return whether the caller has passed; or the exceptions of {@link #tryEnter()}
     * @throws IllegalArgumentException if the timeout is negative
     */
    public CompletableFuture<Boolean> tryEnterAsync(Duration timeout) {
        CompletableFuture<Hold> pass = lock.acquireAsync(timeout);
        CompletableFuture<Boolean> passed = new CompletableFuture<>();
        passed.whenComplete((answer, failure) -> pass.cancel(true)); // does nothing if it has ended
        pass.whenComplete(
                (hold, failure) -> {
                    try {
                        if (failure == null && passed.isDone()) {
                            hold.close();
                        } else if (failure == null) {
                            spend(hold, timeout);
                        }
                        passed.complete(failure == null || refused(failure));
                    } catch (RuntimeException | Error e) {
                        passed.completeExceptionally(e);
                    }
                });
        return passed;
    }

    /**
     * Returns how long until a pass may be free. Asks the server; takes no pass.
     *
     * @return zero if a pass is free now
     * @throws LimitDiffersException if the gate follows the stored rate, and none is stored
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Duration freeIn() {
        LockInfo seen = lock.inspect();
        LockLimit counts = rate != null ? rate : stored(seen);
        Duration left = // a foreign lock, or an exclusive hold
                seen.holders().isEmpty() ? seen.remaining() : seen.holders().get(0).remaining();
        if (seen.shared()) {
            long extra =
                    seen.holders().stream()
                            .mapToLong(holder -> holder.weight() - holder.count())
                            .sum();
            long free = counts.permits() - seen.count() - extra;
            left = Duration.ZERO;
            for (LockHolder holder : seen.holders()) { // the first to end comes first
                if (free >= weight) {
                    break;
                }
                free += holder.weight();
                left = holder.remaining();
            }
        }
        if (left.isZero()) {
            return left;
        }
        // A millisecond more: the server's ends are in whole milliseconds.
        return left.equals(Hold.FOREVER) ? counts.per() : left.plusMillis(1);
    }

    private LockLimit stored(LockInfo seen) {
        return seen.limit()
                .filter(limit -> !limit.per().isZero())
                .orElseThrow(
                        () -> new LimitDiffersException("no rate is stored with " + this));
    }

    /** Lets the pass count until its lease ends. */
    private static void spend(Hold hold, Duration timeout) {
        try {
            if (!timeout.isZero()) {
                hold.renew(); // a hold that was waited for does not have its whole lease yet
            }
            hold.handOver(); // for no process to adopt: the hold ends with its lease, and no close() releases it
        } catch (RuntimeException | Error e) {
            hold.releaseAsync(); // the caller has not passed
            throw e;
        }
    }

    /** Returns false if all passes are taken; throws any other failure. */
    private static boolean refused(Throwable failure) {
        if (failure instanceof LockTimeoutException) {
            return false;
        }
        throw Threads.raised(failure);
    }

    private GateFullException full(Duration waited) {
        Duration wait = freeIn();
        String when = wait.isZero() ? " was free just now" : " may be free in " + wait;
        return new GateFullException(
                lock, this + " has no pass left: the next" + when, waited, wait);
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        String counts = rate == null ? "]" : ", " + rate.permits() + " in " + rate.per() + "]";
        return "Gate[" + lock.getName() + counts;
    }
}
