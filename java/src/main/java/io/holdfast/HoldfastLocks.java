package io.holdfast;

import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.Threads;
import java.time.Duration;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.BiFunction;

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
 * <p>They are acquired one after the other, in the order of the bytes of their names. So callers that
 * give them in different orders do not wait for each other for ever; a caller that already holds one of
 * them may. One deadline applies to all. Locks that were acquired are released if the rest cannot be
 * acquired. If the lease of a lock ends while the call waits for the next, the call begins again,
 * after a pause.
 *
 * <p>Any thread may use it. Its owners are those of {@link HoldfastLock}.
 */
public final class HoldfastLocks {
    private static final int MAX = Core.HF_JOIN_MAX;

    private final List<String> names;
    private final BiFunction<Duration, Boolean, CompletableFuture<Holds>> start;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param names the names of the locks
     * @param start starts to acquire all within a time, {@link Hold#FOREVER} without limit; if the flag
     *     is true, for the calling thread, which waits
     * @throws IllegalArgumentException if there are no names, too many, or a name twice
     */
    public HoldfastLocks(
            List<String> names, BiFunction<Duration, Boolean, CompletableFuture<Holds>> start) {
        if (names.isEmpty() || names.size() > MAX) {
            throw new IllegalArgumentException(
                    names.size() + " locks: it takes 1 to " + MAX + " at once");
        }
        if (new HashSet<>(names).size() < names.size()) {
            throw new IllegalArgumentException("a lock is given twice among " + names);
        }
        this.names = List.copyOf(names);
        this.start = start;
    }

    /**
     * Acquires all locks, and waits without limit.
     *
     * @return the holds; close them
     * @throws InterruptedException if the thread is interrupted before all are acquired
     * @throws LockUnknownException if an answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Holds acquire() throws InterruptedException {
        return take(Hold.FOREVER);
    }

    /**
     * Acquires all locks, and waits while others hold one of them.
     *
     * @param timeout how long to wait; zero tries each once
     * @return the holds; close them
     * @throws LockTimeoutException if other owners kept one of them: then no lock is held
     * @throws InterruptedException if the thread is interrupted before all are acquired
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if an answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Holds acquire(Duration timeout) throws InterruptedException {
        return take(Millis.notNegative(timeout));
    }

    /**
     * Starts to acquire all, and waits without a thread and without limit, as {@link
     * HoldfastLock#acquireAsync()}. Cancelling the future gives all up.
     *
     * @return the holds, which you close; or the exceptions of {@link #acquire()}
     */
    public CompletableFuture<Holds> acquireAsync() {
        return start.apply(Hold.FOREVER, false);
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
        return start.apply(Millis.notNegative(timeout), false);
    }

    private Holds take(Duration timeout) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        CompletableFuture<Holds> started = start.apply(timeout, true);
        try {
            return started.get();
        } catch (InterruptedException e) {
            if (!started.cancel(true)) { // the grant was faster
                started.thenAccept(holds -> holds.holds().values().forEach(Hold::releaseAsync));
            }
            throw e;
        } catch (ExecutionException e) {
            throw Threads.raised(e.getCause());
        }
    }

    /** Returns a text for people to read; sends nothing. */
    @Override
    public String toString() {
        return "HoldfastLocks" + names;
    }
}
