package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.function.Supplier;

/**
 * A lock that excludes across threads, processes and hosts. {@link HoldfastClient#lock(String)}
 * makes it. It is an interface, so that a test or a framework can replace it.
 *
 * <pre>{@code
 * try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
 *     warehouse.write(item, hold.fence());
 * }
 * }</pre>
 *
 * <p>{@link #acquire()} returns a {@link Hold}, which nests in no other hold, not even in one of the
 * same thread: two tasks of one event loop, or two jobs of one pool thread, exclude each other. If it
 * would wait while its thread has a hold of the lock, it throws a {@link LockDeadlockException}, and
 * so do the methods of {@link Lock}. Locks with an {@link LockOptions#owner(String) owner} nest in
 * the holds of that owner; those that are not {@linkplain LockOptions#reentrant reentrant} wait.
 *
 * <p>It is a {@link Lock} too: its methods nest in each other per thread, unless the {@link
 * LockOptions} exclude that. {@link #unlock()} releases the newest acquire of {@link #lock()} and
 * {@link #tryLock()}, even through another lock object of this client and this name, if both
 * are {@link #shared()} or neither is.
 *
 * <p>A thread that ends without {@link #unlock()} leaves a lock that no other thread can unlock,
 * and that is renewed until its {@link LockOptions#maxHold maxHold}. At the next garbage
 * collection, the {@link System.Logger} {@code io.holdfast} gets a warning.
 *
 * <p>A lock has a lease: when its holder dies, it becomes free. So a holder can lose it, for
 * example when its machine stops for longer than the lease. Give the {@linkplain Hold#fence()
 * fence} to the resource that the lock protects.
 *
 * <p>Equal owners are one owner everywhere, and do not exclude each other: with the {@link
 * LockOptions#owner(String) owner} {@code "worker"} on ten hosts this lock excludes nothing.
 *
 * <p>All methods that ask the server throw a {@link HoldfastException} if they cannot ask it, and a
 * {@link ClosedException} if the client is closed. Any thread may use a lock. A waiting thread
 * parks; a virtual thread releases its carrier.
 */
public interface HoldfastLock extends Lock {
    /**
     * The same lock for many holders at once: readers, or as many as the {@link LockOptions#permits
     * permits} of its options allow. Every call returns the same object. Sends nothing.
     *
     * <p>Its holds coexist, and exclude the holds of the lock itself; each has its
     * own fence, lease and loss. All wait in one queue, first come, first served.
     *
     * <p>A thread that has the lock by {@link #lock()}, shared or not, may {@code lock()} it shared
     * again at once, as may an {@link LockOptions#owner(String) owner}. To downgrade, lock it
     * shared while holding it exclusively, and then unlock the exclusive hold: no other owner gets
     * the lock in between. The other way round is refused with a {@link LockDeadlockException}, by
     * {@code tryLock()} too: two such owners would wait for each other.
     *
     * @return a lock with the same options; of a shared one, itself
     */
    HoldfastLock shared();

    /**
     * The same lock, whose holds take several of its {@link LockOptions#permits permits} each:
     * {@code warehouse.shared(3)}. No acquire overtakes an earlier acquire, so a heavy one waits
     * only for those before it, and light ones wait behind it. Every call with the same weight
     * returns the same object. Sends nothing.
     *
     * <p>A nested hold can be at most as heavy as the shared hold that it nests in; a heavier
     * acquire is refused with a {@link LockDeadlockException}.
     *
     * @param weight 1 to the permits
     * @return a lock with the same options and that weight
     * @throws IllegalArgumentException if it is out of these bounds
     */
    HoldfastLock shared(long weight);

    /**
     * This lock as the write lock, and {@link #shared()} as the read lock, for code that expects
     * {@code java.util.concurrent.locks}. As with {@link
     * java.util.concurrent.locks.ReentrantReadWriteLock}, a thread may go from the write lock to the
     * read lock; the reverse throws a {@link LockDeadlockException}.
     *
     * @return both locks
     * @throws UnsupportedOperationException if this is a shared lock: ask the lock itself
     */
    default ReadWriteLock asReadWriteLock() {
        HoldfastLock read = shared();
        if (read == this) {
            throw new UnsupportedOperationException(this + " has no write lock: it is shared");
        }
        HoldfastLock write = this;
        return new ReadWriteLock() {
            @Override
            public Lock readLock() {
                return read;
            }

            @Override
            public Lock writeLock() {
                return write;
            }
        };
    }

    /**
     * Acquires the lock, and waits for it without limit.
     *
     * @return the hold; close it
     * @throws LockDeadlockException if it would wait while this thread has a hold of the lock
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    Hold acquire() throws InterruptedException;

    /**
     * Acquires the lock, and waits while others hold it.
     *
     * @param timeout how long to wait; zero tries once
     * @return the hold; close it
     * @throws LockDeadlockException if it would wait while this thread has a hold of the lock
     * @throws LockTimeoutException if other owners kept it until the timeout
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    Hold acquire(Duration timeout) throws InterruptedException;

    /**
     * Starts to acquire the lock, and waits for it without a thread and without limit. If the lock
     * has no {@link LockOptions#owner(String) owner}, the operation is its own owner: two
     * operations exclude each other, and the thread that started them.
     *
     * <p>Cancelling the future gives the lock up: nothing is left behind, even if the operation got
     * the lock at the same moment. Dropping the future does not cancel it. The client's {@linkplain
     * ClientOptions#executor executor} completes it and runs its dependent actions.
     *
     * @return the hold, which you close; or the exceptions of {@link #acquire()}
     */
    CompletableFuture<Hold> acquireAsync();

    /**
     * Starts to acquire the lock like {@link #acquireAsync()}, and waits a limited time.
     *
     * @param timeout how long to wait; zero tries once
     * @return the hold, which you close; or the exceptions of {@link #acquire(Duration)}
     * @throws IllegalArgumentException if the timeout is negative
     */
    CompletableFuture<Hold> acquireAsync(Duration timeout);

    /**
     * Takes over a hold that another process {@linkplain Hold#handOver() handed over}. This lock's
     * lease and renewal apply from now on; the owner and the fence stay. The call renews the hold
     * first, because a deadline does not travel between hosts.
     *
     * @param token from {@link Hold#handOver()}, of a lock of the same name, {@link #shared()} or not
     *     as here
     * @return the hold; close it
     * @throws IllegalArgumentException if the bytes are not such a token
     * @throws LockLostException if its lease ended before, or it was released
     * @throws LockUnknownException if the answer was lost: not adopted; you may try again
     * @throws HoldfastException if the server could not be asked: you may try again
     * @throws ClosedException if the client is closed
     */
    Hold adopt(byte[] token);

    /**
     * Acquires the lock, and waits for it without limit, even if the thread is interrupted.
     *
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    void lock();

    /**
     * Acquires the lock with this lease instead of the lock's own, and waits for it without limit,
     * even if the thread is interrupted. It is renewed unless the lock's {@link LockOptions#renew}
     * is false.
     *
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @throws IllegalArgumentException if the lease is out of these bounds
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    void lock(Duration lease);

    /**
     * Acquires the lock, and waits for it without limit.
     *
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    void lockInterruptibly() throws InterruptedException;

    /**
     * Acquires the lock if no other owner holds it at this moment.
     *
     * @return whether it is held now
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    boolean tryLock();

    /**
     * Acquires the lock, and waits while others hold it.
     *
     * @param time how long to wait at least; zero or less tries once
     * @param unit the unit of the time
     * @return whether it is held now
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    boolean tryLock(long time, TimeUnit unit) throws InterruptedException;

    /**
     * Acquires the lock with this lease instead of the lock's own, and waits while others hold it.
     * It is renewed unless the lock's {@link LockOptions#renew} is false.
     *
     * @param wait how long to wait at least; zero or less tries once
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @return whether it is held now
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws IllegalArgumentException if the lease is out of these bounds
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    boolean tryLock(Duration wait, Duration lease) throws InterruptedException;

    /**
     * Releases the newest acquire of the current thread, or of the {@link
     * LockOptions#owner(String) owner}, by one of the methods of {@link Lock}; even if the thread
     * is interrupted.
     *
     * <p>If the lock is not {@linkplain LockOptions#reentrant reentrant} and has no owner, a thread
     * without a hold releases the newest hold that another thread acquired through this object.
     *
     * @throws LockNotHeldException if there is no such acquire; nothing was changed
     * @throws LockLostException if it was lost before, and another owner may have held the lock
     *     since: you may have to undo the work under it
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     */
    @Override
    void unlock();

    /**
     * Not supported: the server has no conditions to wait for.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    default Condition newCondition() {
        throw new UnsupportedOperationException("a lock on Redis has no conditions");
    }

    /**
     * Whether the lock is held, through this library or another. Asks the server; the answer
     * may be out of date when you read it.
     *
     * @return whether it is held
     */
    default boolean isLocked() {
        return inspect().held();
    }

    /**
     * Whether the caller holds the lock: by a method of {@link Lock}, or by a {@link Hold} that
     * this thread acquired. All holders of a lock with an {@link LockOptions#owner(String) owner}
     * are one. Sends nothing.
     *
     * <p>If the lock is not {@linkplain LockOptions#reentrant reentrant} and has no owner, the
     * methods of {@link Lock} count only if the thread called them on this object. A hold of another
     * thread never counts, though any thread may {@link #unlock()} it.
     *
     * @return whether the current thread, or the owner, holds the lock
     */
    boolean isHeldByCurrentThread();

    /**
     * The fence (a fencing token) of the caller's newest hold, for example after {@link #lock()};
     * see {@link Hold#fence()}. Sends nothing.
     *
     * @return a positive number
     * @throws LockNotHeldException if the caller does not {@linkplain #isHeldByCurrentThread()
     *     hold} the lock
     */
    long fence();

    /**
     * Returns how often the caller must {@link #unlock()} to release all its holds. Sends nothing.
     *
     * @return the number of holds of the current thread, or of the owner, not counting {@link Hold}s
     */
    int getHoldCount();

    /**
     * Reads the lock's state from the server, whichever owner holds it. The answer may be
     * out of date when you read it, so do not enter because of it.
     *
     * @return its holders, its waiters, and more
     */
    default LockInfo inspect() {
        return inspect(0);
    }

    /**
     * Reads the lock's state like {@link #inspect()}, from further down its lists.
     *
     * @param first how many holds, and how many waiters, to skip: a call lists 100 of each
     * @return its holders, its waiters, and more
     * @throws IllegalArgumentException if it is negative
     */
    LockInfo inspect(long first);

    /**
     * Takes the lock away from its holders; of more than 100 shared holders, only from those that
     * {@link #inspect()} lists. For operators. A holder notices at its next renewal or check;
     * until then only the fence protects.
     *
     * @return true if it was taken away from a holder; false if it was free or foreign, or went to
     *     another holder meanwhile
     * @throws LockUnknownException if the answer was lost
     */
    default boolean forceUnlock() {
        boolean taken = false;
        for (LockHolder holder : inspect().holders()) {
            taken |= forceUnlock(holder.fence());
        }
        return taken;
    }

    /**
     * Takes the lock away from one holder, and leaves other shared holds alone. For operators.
     *
     * @param fence the holder's, from {@link #inspect()}
     * @return true if it was taken away, or the lock was free already; false if the lock has only
     *     other holders, or is foreign
     * @throws LockUnknownException if the answer was lost
     */
    boolean forceUnlock(long fence);

    /**
     * Makes a call once for all the threads and processes that need its result at the same time.
     * The first caller makes it; all others wait and get its result, and later callers get it at
     * once, for as long as it is kept. If the call throws, or its process dies, the next caller makes
     * it.
     *
     * <p>If the lease of this lock ends during the call, another caller makes it too; by default
     * the lease is renewed. This lock's owner and reentrance mean nothing here: a call that asks
     * for its own name waits for itself.
     *
     * <p>If the result cannot be kept for others, because the server is full or gone or the lease
     * ended, the caller gets it all the same, and the log has a warning.
     *
     * @param <T> the type of the result
     * @param ttl how long the result is kept; at least 10 seconds, so that no caller that waits
     *     misses it
     * @param timeout how long to wait; zero tries once, {@link Hold#FOREVER} waits without limit
     * @param codec encodes the result, in at most 16 MiB, and decodes it; all
     *     callers get what it decodes, even the caller that made the call
     * @param call the call
     * @return the result
     * @throws LockTimeoutException if there was no result in time
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws IllegalArgumentException if {@code ttl} or {@code timeout} is out of bounds
     * @throws ResultNotKeptException if the call was made here, and the codec failed or the result
     *     is too long; the exception has the result, and no result is kept
     * @throws HoldfastException if the server could not be asked
     * @throws Exception the exceptions of the call, and then no result is kept; those of {@link
     *     Codec#decode} if another caller made the result
     */
    default <T> T once(
            Duration ttl, Duration timeout, Codec<T> codec, Callable<? extends T> call)
            throws Exception {
        return once(OnceOptions.of(ttl, codec).timeout(timeout), call);
    }

    /**
     * {@link #once(Duration, Duration, Codec, Callable)} without a thread that waits. The call
     * starts on the thread that completes the future. Cancelling the future ends the wait, or
     * cancels the call's own future; the next caller has its turn when that has ended.
     *
     * @param <T> the type of the result
     * @param ttl how long the result is kept; at least 10 seconds
     * @param timeout how long to wait; zero tries once, {@link Hold#FOREVER} waits without limit
     * @param codec encodes and decodes the result
     * @param call starts the call
     * @return the result; it fails as that method throws
     * @throws IllegalArgumentException if {@code ttl} or {@code timeout} is out of bounds
     */
    default <T> CompletableFuture<T> onceAsync(
            Duration ttl,
            Duration timeout,
            Codec<T> codec,
            Supplier<? extends CompletionStage<? extends T>> call) {
        return onceAsync(OnceOptions.of(ttl, codec).timeout(timeout), call);
    }

    /**
     * Makes a call once, as {@link #once(Duration, Duration, Codec, Callable)} does, with options:
     * at most once, with a fingerprint of its arguments, with errors that are kept.
     *
     * <p>A result that was paid for is never thrown away: if it cannot be kept, the {@link
     * ResultNotKeptException} has it. If the call is not made at most once, its caller gets the
     * result with a warning in the log, unless it could not be encoded.
     *
     * @param <T> the type of the result
     * @param options how the call is made
     * @param call the call
     * @return the result
     * @throws OutcomeUnknownException if the call began, and it is unknown how it ended
     * @throws FingerprintMismatchException if it was made with other arguments, or in the other mode
     * @throws KeptErrorException if it failed with an error that is kept
     * @throws ResultNotKeptException if it was made here, and its result could not be kept
     * @throws LockTimeoutException if there was no result in time
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws HoldfastException if the server could not be asked: the call was not made
     * @throws Exception the exceptions of the call, and those of {@link Codec#decode} if another
     *     caller made the result
     */
    default <T> T once(OnceOptions<T> options, Callable<? extends T> call) throws Exception {
        return once(options).call(call);
    }

    /**
     * {@link #once(OnceOptions, Callable)} without a thread that waits; see {@link
     * #onceAsync(Duration, Duration, Codec, Supplier)}. If the future is cancelled during a call
     * that is made at most once, its outcome is unknown.
     *
     * @param <T> the type of the result
     * @param options how the call is made
     * @param call starts the call
     * @return the result; it fails as that method throws
     */
    default <T> CompletableFuture<T> onceAsync(
            OnceOptions<T> options, Supplier<? extends CompletionStage<? extends T>> call) {
        return once(options).start(call);
    }

    private <T> Once<T> once(OnceOptions<T> options) {
        return new Once<>(this, options, this::begin, this::beginAsync, this::onceResult);
    }

    /**
     * Returns the server's record of the call of this name, with its result or error. Changes nothing.
     *
     * @return empty if there is no record
     * @throws HoldfastException if the server could not be asked
     */
    Optional<Outcome> onceResult();

    /**
     * Waits for the result of a call that is made once, or for the turn to make it: for programs
     * that {@link #once once()} does not fit.
     *
     * @param timeout how long to wait; zero tries once
     * @return the result, or the turn
     * @throws LockTimeoutException if neither was there in time
     * @throws InterruptedException if the thread is interrupted first
     * @throws IllegalArgumentException if the timeout is negative
     * @throws HoldfastException if the server could not be asked
     */
    default Turn begin(Duration timeout) throws InterruptedException {
        return begin(Once.waiting(timeout));
    }

    /**
     * {@link #begin(Duration)} without a thread that waits.
     *
     * @param timeout how long to wait; zero tries once
     * @return the result, or the turn; cancelling it leaves nothing behind
     * @throws IllegalArgumentException if the timeout is negative
     */
    default CompletableFuture<Turn> beginAsync(Duration timeout) {
        return beginAsync(Once.waiting(timeout));
    }

    /**
     * Waits for the result of a call that is made once, or for the turn to make it. If the call is
     * made {@linkplain OnceOptions#atMostOnce at most once}, the server has recorded that it begins
     * when this returns a turn: make the call now.
     *
     * @param options how long to wait, the mode, the arguments and the note; the rest is for {@link
     *     #once(OnceOptions, Callable)}
     * @return the result, or the turn
     * @throws OutcomeUnknownException if the call began, and it is unknown how it ended
     * @throws FingerprintMismatchException if it was made with other arguments, or in the other mode
     * @throws KeptErrorException if it failed with an error that is kept
     * @throws LockTimeoutException if neither was there in time
     * @throws LockLostException if the hold was lost before the call began: you may try again
     * @throws InterruptedException if the thread is interrupted first
     * @throws HoldfastException if the server could not be asked: do not call
     */
    Turn begin(OnceOptions<?> options) throws InterruptedException;

    /**
     * {@link #begin(OnceOptions)} without a thread that waits.
     *
     * @param options see there
     * @return the result, or the turn; cancelling it leaves nothing behind
     */
    CompletableFuture<Turn> beginAsync(OnceOptions<?> options);

    /**
     * The lock's name.
     *
     * @return its bytes as UTF-8, with a replacement character for invalid bytes
     */
    String getName();
}
