package io.holdfast;

import java.lang.System.Logger.Level;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.function.LongFunction;

/**
 * A lock that excludes across threads, processes and hosts. {@link HoldfastClient#lock(String)}
 * makes it.
 *
 * <pre>{@code
 * try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
 *     warehouse.write(item, hold.fence());
 * }
 * }</pre>
 *
 * <p>It is a {@link Lock} too, reentrant per thread unless its {@link LockOptions} say otherwise.
 * {@link #unlock()} releases the newest acquire of {@link #lock()} and {@link #tryLock()}, even
 * through another lock object of this client and this name. {@link #acquire()} returns a {@link
 * Hold}, which releases it.
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
 * parks; a virtual one releases its carrier.
 */
public final class RedisLock implements Lock {
    /** An acquire with the lock's lease and renewal. */
    private static final long OWN_LEASE = 0;

    private static final long LONG_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long FOREVER_NANOS = Long.MAX_VALUE;

    private final HoldfastClient client;
    private final byte[] name;
    private final byte[] owner;
    private final boolean perThread;
    private final Handle handle;
    /** How many threads wait through this object: if some do, a patient one need not try first. */
    private final AtomicInteger waiting = new AtomicInteger();

    RedisLock(HoldfastClient client, byte[] name, LockOptions options, long pointer) {
        this.client = client;
        this.name = name;
        this.owner = options.owner;
        this.perThread = options.reentrant && options.owner == null;
        Handle handle = new Handle(pointer, Core::hf_lock_close);
        handle.whenDropped(this, handle::close);
        this.handle = handle;
    }

    /**
     * Acquires the lock, and waits for it without limit.
     *
     * @return the hold; close it
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Hold acquire() throws InterruptedException {
        return acquireHold(FOREVER_NANOS);
    }

    /**
     * Acquires the lock, and waits while others hold it.
     *
     * @param timeout how long to wait; zero tries once
     * @return the hold; close it
     * @throws LockTimeoutException if others kept it for all that time
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     * @throws IllegalArgumentException if the timeout is negative
     * @throws LockUnknownException if the answer was lost: do not enter
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public Hold acquire(Duration timeout) throws InterruptedException {
        Hold hold = acquireHold(TimeUnit.NANOSECONDS.convert(notNegative(timeout)));
        if (hold == null) {
            throw new LockTimeoutException(
                    this + " was not acquired within " + timeout + ": others hold it");
        }
        return hold;
    }

    /**
     * Starts to acquire the lock, and waits for it without a thread and without limit. If the lock
     * has no {@link LockOptions#owner(String) owner}, the operation is its own owner: two of them
     * exclude each other, and the thread that started them.
     *
     * <p>Cancelling the future gives the lock up: nothing is left behind, even if the operation got
     * the lock at the same moment. Dropping the future does not cancel it. The default executor of
     * {@link CompletableFuture} completes it and runs its dependent actions.
     *
     * @return the hold, which you close; or the exceptions of {@link #acquire()}
     */
    public CompletableFuture<Hold> acquireAsync() {
        return begin(Core.HF_FOREVER);
    }

    /**
     * Starts to acquire the lock like {@link #acquireAsync()}, and waits a limited time.
     *
     * @param timeout how long to wait; zero tries once
     * @return the hold, which you close; or the exceptions of {@link #acquire(Duration)}
     * @throws IllegalArgumentException if the timeout is negative
     */
    public CompletableFuture<Hold> acquireAsync(Duration timeout) {
        return begin(Millis.of(notNegative(timeout)));
    }

    /**
     * Takes over a hold that another process {@linkplain Hold#handOver() handed over}. This lock's
     * lease and renewal apply from now on; the owner and the fence stay. The call renews the hold
     * first, because a deadline does not travel between hosts.
     *
     * @param token from {@link Hold#handOver()}, of a lock of the same name
     * @return the hold; close it
     * @throws IllegalArgumentException if the bytes are not a token
     * @throws LockLostException if its lease ended before, or it was released
     * @throws LockUnknownException if the answer was lost: not adopted; you may try again
     * @throws HoldfastException if the server could not be asked: you may try again
     * @throws ClosedException if the client is closed
     */
    public Hold adopt(byte[] token) {
        Objects.requireNonNull(token, "token");
        long[] hold = new long[1];
        call(lock -> Core.hf_lock_adopt(lock, token, hold));
        return new Hold(client, this, hold[0]);
    }

    /**
     * Acquires the lock, and waits for it without limit, even if the thread is interrupted.
     *
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public void lock() {
        takeUninterruptibly(FOREVER_NANOS, OWN_LEASE);
    }

    /**
     * Acquires the lock for a limited time, and waits for it without limit, even if the thread is
     * interrupted. It is not renewed: it ends with its lease.
     *
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @throws IllegalArgumentException if the lease is out of these bounds
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    public void lock(Duration lease) {
        takeUninterruptibly(FOREVER_NANOS, Millis.positive(lease, "lease"));
    }

    /**
     * Acquires the lock, and waits for it without limit.
     *
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public void lockInterruptibly() throws InterruptedException {
        take(FOREVER_NANOS, OWN_LEASE, null, true);
    }

    /**
     * Acquires the lock if nobody else holds it at this moment.
     *
     * @return whether it is held now
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public boolean tryLock() {
        return takeUninterruptibly(0, OWN_LEASE);
    }

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
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return take(unit.toNanos(time), OWN_LEASE, null, true);
    }

    /**
     * Acquires the lock for a limited time, and waits while others hold it. It is not renewed: it
     * ends with its lease.
     *
     * @param wait how long to wait at least; zero or less tries once
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @return whether it is held now
     * @throws InterruptedException if the thread is interrupted before the lock is acquired;
     *     nothing is left behind
     * @throws IllegalArgumentException if the lease is out of these bounds
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    public boolean tryLock(Duration wait, Duration lease) throws InterruptedException {
        long nanos = TimeUnit.NANOSECONDS.convert(wait);
        return take(nanos, Millis.positive(lease, "lease"), null, true);
    }

    /**
     * Releases the newest acquire of the current thread, or of the {@link
     * LockOptions#owner(String) owner}, by one of the methods of {@link Lock}; even if the thread
     * is interrupted.
     *
     * @throws LockNotHeldException if there is no such acquire; nothing was changed
     * @throws LockLostException if it was lost before, and somebody else may have held the lock
     *     since: you may have to undo the work under it
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     */
    @Override
    public void unlock() {
        call(lock -> Core.hf_lock_release_as(lock, owner()));
    }

    /**
     * Not supported: the server has no conditions to wait for.
     *
     * @throws UnsupportedOperationException always
     */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a lock on Redis has no conditions");
    }

    /**
     * Whether anybody holds the lock, through this library or another. Asks the server; the answer
     * may be out of date when you read it.
     *
     * @return whether it is held
     */
    public boolean isLocked() {
        return inspect().held();
    }

    /**
     * Whether {@link #unlock()} has something to release. Sends nothing.
     *
     * @return whether the current thread, or the owner, holds the lock
     */
    public boolean isHeldByCurrentThread() {
        return getHoldCount() > 0;
    }

    /**
     * How often {@link #unlock()} has something to release. Sends nothing.
     *
     * @return how many holds the current thread, or the owner, has, not counting {@link Hold}s
     */
    public int getHoldCount() {
        return call(lock -> (int) Core.hf_lock_count_as(lock, owner()));
    }

    /**
     * Looks at the lock on the server, whoever holds it. The answer may be out of date when you
     * read it, so do not enter because of it.
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
     * Takes the lock away from its holder. For operators. The holder finds out at its next renewal
     * or check; until then only the fence protects.
     *
     * @return true if it was taken away from a holder; false if it was free or foreign, or went to
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

    /** For people to read; sends nothing. */
    @Override
    public String toString() {
        return "RedisLock[" + Bytes.text(name) + "]";
    }

    /** Keeps this object reachable until the call ends, so that no cleaner closes the handle. */
    private <T> T call(LongFunction<T> function) {
        try {
            return handle.call(function);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** The owner that acquires and releases; null: the core derives it from the options. */
    private byte[] owner() {
        return perThread ? client.threadOwner() : null;
    }

    private static Duration notNegative(Duration timeout) {
        if (timeout.isNegative()) {
            throw new IllegalArgumentException("the timeout must not be negative: " + timeout);
        }
        return timeout;
    }

    private Hold acquireHold(long nanos) throws InterruptedException {
        long[] hold = new long[1];
        return take(nanos, OWN_LEASE, hold, true) ? new Hold(client, this, hold[0]) : null;
    }

    private boolean takeUninterruptibly(long nanos, long leaseMillis) {
        try {
            return take(nanos, leaseMillis, null, false);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Acquires into hold[0], or, if hold is null, for {@link #unlock()}. Tries on this thread,
     * which is one round trip; then parks to wait, which native code could not do.
     */
    private boolean take(long nanos, long leaseMillis, long[] hold, boolean interruptible)
            throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        long start = System.nanoTime();
        byte[] owner = owner();
        boolean tries = nanos < LONG_NANOS || waiting.get() == 0;
        boolean taken = tries && attempt(owner, leaseMillis, hold);
        long left =
                nanos == FOREVER_NANOS
                        ? nanos
                        : Math.max(nanos, 0) - (System.nanoTime() - start);
        if (interruptible && Thread.interrupted()) {
            if (taken) {
                giveUp(hold == null ? 0 : hold[0], owner);
            }
            throw new InterruptedException();
        }
        if (taken || left <= 0) {
            return taken;
        }
        if (tries) {
            client.countTry();
        }
        waiting.incrementAndGet();
        try {
            return await(
                    begin(owner, timeout(left), leaseMillis, hold == null), hold, interruptible);
        } finally {
            waiting.decrementAndGet();
        }
    }

    private boolean await(Completions.Operation operation, long[] hold, boolean interruptible)
            throws InterruptedException {
        Completions.Outcome outcome;
        try {
            outcome = interruptible ? operation.get() : operation.join();
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            client.cancel(operation);
            outcome = operation.join();
            if (outcome.status() == Core.HF_OK) {
                giveUp(outcome.hold(), null);
            }
            throw e;
        }
        switch (outcome.status()) {
            case Core.HF_OK:
                if (hold != null) {
                    hold[0] = outcome.hold();
                } else {
                    Core.hf_hold_close(outcome.hold());
                }
                return true;
            case Core.HF_EBUSY:
            case Core.HF_ETIMEOUT:
                return false;
            default:
                throw Status.raised(outcome.failure());
        }
    }

    /** Releases a lock that its caller gave up. If that fails, it ends with its lease. */
    private void giveUp(long hold, byte[] owner) {
        try {
            if (hold == 0) {
                call(lock -> Core.hf_lock_release_as(lock, owner));
            } else {
                Core.hf_hold_release(hold);
            }
        } catch (RuntimeException e) {
            Holdfast.LOG.log(Level.DEBUG, this + " was given up", e);
        } finally {
            Core.hf_hold_close(hold);
        }
    }

    private CompletableFuture<Hold> begin(long timeoutMillis) {
        CompletableFuture<Hold> future = new CompletableFuture<>();
        Completions.Operation operation;
        try {
            operation = begin(owner, timeoutMillis, OWN_LEASE, false);
        } catch (ClosedException e) {
            return CompletableFuture.failedFuture(e);
        }
        future.whenComplete(
                (hold, failure) -> {
                    if (!operation.isDone()) {
                        client.cancel(operation);
                    }
                });
        operation.thenAcceptAsync(
                outcome -> {
                    if (outcome.status() != Core.HF_OK) {
                        future.completeExceptionally(outcome.failure());
                    } else if (future.isDone()) {
                        giveUp(outcome.hold(), null);
                    } else {
                        Hold hold = new Hold(client, this, outcome.hold());
                        if (!future.complete(hold)) {
                            hold.abandon();
                        }
                    }
                });
        return future;
    }

    private boolean attempt(byte[] owner, long leaseMillis, long[] hold) {
        if (leaseMillis == OWN_LEASE) {
            return call(lock -> Core.hf_lock_acquire_as(lock, owner, 0, null, hold));
        }
        try (hf_acquire_options options = new hf_acquire_options()) {
            options.setLease_ms(leaseMillis);
            return call(lock -> Core.hf_lock_acquire_as(lock, owner, 0, options, hold));
        }
    }

    private Completions.Operation begin(
            byte[] owner, long timeoutMillis, long leaseMillis, boolean keep) {
        try (hf_acquire_options options = new hf_acquire_options()) {
            options.setLease_ms(leaseMillis);
            options.setFlags(keep ? Core.HF_ACQUIRE_KEEP : 0);
            return client.start(
                    number ->
                            call(
                                    lock ->
                                            Core.hf_lock_acquire_start(
                                                    lock, owner, timeoutMillis, options, number)));
        }
    }

    /** Rounded up: never early. */
    private static long timeout(long nanos) {
        return nanos == FOREVER_NANOS
                ? Core.HF_FOREVER
                : TimeUnit.NANOSECONDS.toMillis(nanos - 1) + 1;
    }
}
