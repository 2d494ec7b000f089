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
 * <p>A thread that ends without {@link #unlock()} leaves a lock that nobody else can unlock, and
 * that is renewed until its {@link LockOptions#maxHold maxHold}. It is warned of, in the {@link
 * System.Logger} {@code io.holdfast}, at the next garbage collection.
 *
 * <p>A lock has a lease: when its holder dies, it becomes free. So a holder can lose it, for
 * example when its machine stands still for longer than the lease. Give the {@linkplain
 * Hold#fence() fence} to what the lock protects.
 *
 * <p>Equal owners are one owner everywhere, and do not exclude each other: with the {@link
 * LockOptions#owner(String) owner} {@code "worker"} on ten hosts this lock excludes nothing.
 *
 * <p>All methods that ask the server throw a {@link HoldfastException} if it cannot be asked, and a
 * {@link ClosedException} if the client is closed. It may be used from any thread. A thread that
 * waits is parked; a virtual one lets go of its carrier.
 */
public final class RedisLock implements Lock {
    /** For an acquire: the lease, and whether it is renewed, are the lock's. */
    private static final long OWN_LEASE = 0;

    private static final long LONG_NANOS = TimeUnit.SECONDS.toNanos(1);
    private static final long FOREVER_NANOS = Long.MAX_VALUE;

    private final HoldfastClient client;
    private final byte[] name;
    private final byte[] owner;
    private final boolean perThread;
    private final Handle handle;
    /** How many threads wait through this object: who finds some and has time need not try. */
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
        Hold hold = acquireHold(TimeUnit.NANOSECONDS.convert(notNegative(timeout)));
        if (hold == null) {
            throw new LockTimeoutException(
                    this + " was not acquired within " + timeout + ": others hold it");
        }
        return hold;
    }

    /**
     * Begins to acquire the lock, and waits for it without a thread, for as long as it takes. If
     * the lock has no {@link LockOptions#owner(String) owner}, the operation is an owner for
     * itself: two of them exclude each other, and the thread that began them.
     *
     * <p>To cancel the future is to give the lock up: nothing is left behind, also if it was won at
     * the same moment. A future that is dropped is not cancelled. It is completed, and what depends
     * on it is run, by the default executor of {@link CompletableFuture}.
     *
     * @return the hold, to be closed; or what {@link #acquire()} throws
     */
    public CompletableFuture<Hold> acquireAsync() {
        return begin(Core.HF_FOREVER);
    }

    /**
     * Begins to acquire the lock, as {@link #acquireAsync()} does, and waits a limited time.
     *
     * @param timeout how long; zero tries once
     * @return the hold, to be closed; or what {@link #acquire(Duration)} throws
     * @throws IllegalArgumentException if the timeout is negative
     */
    public CompletableFuture<Hold> acquireAsync(Duration timeout) {
        return begin(Millis.of(notNegative(timeout)));
    }

    /**
     * Goes on with a hold that another process {@linkplain Hold#handOver() handed over}. Its lease
     * and whether it is renewed are this lock's from now on, its owner and its fence are as before.
     * It is renewed first, because a deadline does not travel between hosts.
     *
     * @param token from {@link Hold#handOver()}, of a lock of the same name
     * @return the hold, to be closed
     * @throws IllegalArgumentException if that is no token
     * @throws LockLostException if its lease ended before, or it was released
     * @throws LockUnknownException if the answer was lost: not adopted; it may be tried again
     * @throws HoldfastException if the server could not be asked: it may be tried again
     * @throws ClosedException if the client is closed
     */
    public Hold adopt(byte[] token) {
        Objects.requireNonNull(token, "token");
        long[] hold = new long[1];
        call(lock -> Core.hf_lock_adopt(lock, token, hold));
        return new Hold(client, this, hold[0]);
    }

    /**
     * Acquires the lock, waiting for as long as it takes, whether or not the thread is interrupted.
     *
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    @Override
    public void lock() {
        takeUninterruptibly(FOREVER_NANOS, OWN_LEASE);
    }

    /**
     * Acquires the lock for a time, waiting for as long as it takes to get it, whether or not the
     * thread is interrupted. It is not renewed: it just ends with its lease.
     *
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @throws IllegalArgumentException if the lease is out of these bounds
     * @throws LockUnknownException if the answer was lost: do not enter
     */
    public void lock(Duration lease) {
        takeUninterruptibly(FOREVER_NANOS, Millis.positive(lease, "lease"));
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
        return take(unit.toNanos(time), OWN_LEASE, null, true);
    }

    /**
     * Acquires the lock for a time, waiting for others to let go of it. It is not renewed: it just
     * ends with its lease.
     *
     * @param wait how long to wait, and never shorter; zero or less tries once
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
     * Acquires: into hold[0], or, if that is null, for {@link #unlock()} to release. Tries on this
     * thread, which is one round trip; to wait it parks, which no native code could do for it.
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
                throw Status.raised(outcome.failure(failure(outcome)));
        }
    }

    /** Won, but not to be kept. If it cannot be released it ends with its lease. */
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
                        future.completeExceptionally(outcome.failure(failure(outcome)));
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
            options.setFlags(keep ? Core.HF_KEEP : 0);
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

    private String failure(Completions.Outcome outcome) {
        return this + " was not acquired: " + Status.why(outcome.status());
    }
}
