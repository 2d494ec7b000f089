package io.holdfast;

import java.lang.ref.Reference;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.function.LongFunction;

/**
 * A lock that excludes across threads, processes and hosts. Made by {@link
 * HoldfastClient#lock(String)}.
 *
 * <pre>{@code
 * try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
 *     warehouse.write(item, hold.fence());
 * }
 * }</pre>
 *
 * <p>It is a {@link Lock} too, reentrant per thread unless its {@link LockOptions} say otherwise.
 * What {@link #lock()} and {@link #tryLock()} acquired, {@link #unlock()} releases, the newest
 * first, also through another lock object of this client and this name. What {@link #acquire()}
 * answered is released through the {@link Hold}.
 *
 * <p>A lock has a lease: when its holder dies, it becomes free. So a holder can lose it, for
 * example when its machine stands still for longer than the lease. Give the {@linkplain
 * Hold#fence() fence} to what the lock protects.
 *
 * <p>Equal owners are one owner everywhere, and do not exclude each other: with the {@link
 * LockOptions#owner(String) owner} {@code "worker"} on ten hosts this lock excludes nothing.
 *
 * <p>All methods that ask the server throw a {@link HoldfastException} if it cannot be asked, and a
 * {@link ClosedException} if the client is closed. It may be used from any thread. A virtual thread
 * that waits here keeps its carrier.
 */
public final class RedisLock implements Lock {
    /** How long a wait may be deaf to {@link Thread#interrupt}. */
    private static final long SLICE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    private static final long FOREVER_NANOS = Long.MAX_VALUE;

    private final HoldfastClient client;
    private final byte[] name;
    private final boolean perThread;
    private final Handle handle;

    RedisLock(HoldfastClient client, byte[] name, LockOptions options, long pointer) {
        this.client = client;
        this.name = name;
        this.perThread = options.reentrant && options.owner == null;
        Handle handle = new Handle(pointer, Core::hf_lock_close);
        handle.whenDropped(this, handle::close);
        this.handle = handle;
    }

    /**
     * Acquires the lock, waiting for as long as it takes.
     *
     * @return the hold, to be closed
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Hold acquire() throws InterruptedException {
        return acquireHold(FOREVER_NANOS);
    }

    /**
     * Acquires the lock, waiting for others to let go of it.
     *
     * @param timeout how long; zero tries once
     * @return the hold, to be closed
     * @throws LockTimeoutException if others kept it for all that time
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Hold acquire(Duration timeout) throws InterruptedException {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout must not be negative: " + timeout);
        }
        Hold hold = acquireHold(TimeUnit.NANOSECONDS.convert(timeout));
        if (hold == null) {
            throw new LockTimeoutException(
                    this + " was not acquired within " + timeout + ": others hold it");
        }
        return hold;
    }

    /**
     * Acquires the lock, waiting for as long as it takes, whether or not the thread is interrupted.
     *
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public void lock() {
        take(Core.HF_FOREVER, null);
    }

    /**
     * Acquires the lock, waiting for as long as it takes.
     *
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        await(FOREVER_NANOS, null);
    }

    /**
     * Acquires the lock if nobody else holds it at this moment.
     *
     * @return whether it is held now
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public boolean tryLock() {
        return take(0, null);
    }

    /**
     * Acquires the lock, waiting for others to let go of it.
     *
     * @param time how long, and never shorter; zero or less tries once
     * @param unit of the time
     * @return whether it is held now
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return await(unit.toNanos(time), null);
    }

    /**
     * Releases what the current thread, or the {@link LockOptions#owner(String) owner}, acquired
     * last by one of the methods of {@link Lock}, also if the thread is interrupted.
     *
     * @throws LockNotHeldException if there is nothing of that kind; nothing was changed
     * @throws LockLostException if it was lost before, and somebody else may have held the lock
     *     since: what was done under it may have to be undone
     * @throws LockUnknownException if the answer was lost; at the latest it ends with its lease
     * @throws HoldfastException if it was not released; it ends with its lease
     */
    @Override
    public void unlock() {
        call(lock -> Core.hf_lock_release_as(lock, owner()));
    }

    /**
     * Not supported: there is nothing to wait for on the server.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a lock on Redis has no conditions");
    }

    /**
     * Whether anybody holds the lock, this library or another. Asks the server; the answer may be
     * out of date when it is read.
     *
     * @return whether it is held
     */
    public boolean isLocked() {
        return inspect().held();
    }

    /**
     * Whether {@link #unlock()} has something to release. Asks nobody.
     *
     * @return whether the current thread, or the owner, holds the lock
     */
    public boolean isHeldByCurrentThread() {
        return getHoldCount() > 0;
    }

    /**
     * How often {@link #unlock()} has something to release. Asks nobody.
     *
     * @return how many holds the current thread, or the owner, has, not counting {@link Hold}s
     */
    public int getHoldCount() {
        return call(lock -> (int) Core.hf_lock_count_as(lock, owner()));
    }

    /**
     * What the lock looks like on the server, whoever holds it. The answer may be out of date when
     * it is read, so do not decide by it whether to enter.
     *
     * @return its holder, the fence, and more
     */
    public LockInfo inspect() {
        try (hf_lock_info info = new hf_lock_info()) {
            byte[] owner = call(lock -> Core.hf_lock_inspect(lock, info));
            return new LockInfo(
                    info.getHeld() != 0,
                    info.getForeign() != 0,
                    owner,
                    info.getCount(),
                    info.getFence(),
                    Millis.toDuration(info.getRemaining_ms()),
                    info.getWaiters());
        }
    }

    /**
     * Takes the lock away from whoever holds it, for operators. Its holder finds out at its next
     * renewal or check; until then only the fence protects.
     *
     * @return whether it was taken away from a holder; false if it was free or foreign, or went to
     *     another holder meanwhile
     * @throws LockUnknownException if the answer was lost
     */
    public boolean forceUnlock() {
        LockInfo seen = inspect();
        if (!seen.held() || seen.foreign()) {
            return false;
        }
        try {
            call(lock -> Core.hf_lock_break(lock, seen.fence(), 0));
            return true;
        } catch (LockNotHeldException wentOn) {
            return false;
        }
    }

    /** For people to read; asks nobody. */
    @Override
    public String toString() {
        return "RedisLock[" + Bytes.text(name) + "]";
    }

    /** Not closed before the call has begun: a cleaner waits for who has the lock in hand. */
    private <T> T call(LongFunction<T> function) {
        try {
            return handle.call(function);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Who acquires and releases; null is what the core makes of the options. */
    private byte[] owner() {
        return perThread ? client.threadOwner() : null;
    }

    private Hold acquireHold(long nanos) throws InterruptedException {
        long[] hold = new long[1];
        return await(nanos, hold) ? new Hold(this, hold[0]) : null;
    }

    /**
     * Acquires, and is ended by an interrupt. In native code nobody hears one, so the wait is cut
     * into slices.
     */
    private boolean await(long nanos, long[] hold) throws InterruptedException {
        long start = System.nanoTime();
        long timeout = Math.max(nanos, 0);
        long left = timeout;
        do {
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
            long slice = Math.min(left, SLICE_NANOS);
            if (take(TimeUnit.NANOSECONDS.toMillis(slice + 999_999), hold)) {
                return true;
            }
            left = timeout - (System.nanoTime() - start);
        } while (left > 0);
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        return false;
    }

    /** Acquires: into hold[0], or, if that is null, for {@link #unlock()} to release. */
    private boolean take(long timeoutMillis, long[] hold) {
        return call(
                lock -> Core.hf_lock_acquire_as(lock, owner(), timeoutMillis, null, hold));
    }
}
