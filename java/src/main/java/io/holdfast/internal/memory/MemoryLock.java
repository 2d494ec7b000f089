package io.holdfast.internal.memory;

import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockInfo;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockOptions;
import io.holdfast.LockTimeoutException;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.RefusalCause;
import io.holdfast.Turn;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Millis;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Stream;

/** A lock in memory. */
final class MemoryLock implements HoldfastLock {
    private final MemoryNames locks;
    private final MemoryBook book;
    private final LockOptions options;
    private final boolean shares;
    private final Map<Long, MemoryLock> shared = new ConcurrentHashMap<>();
    private final byte[] name;
    private final Optional<ByteBuffer> owner;

    MemoryLock(
            MemoryNames locks, MemoryBook book, byte[] name, LockOptions options, boolean shares) {
        this.locks = locks;
        this.book = book;
        this.name = name;
        this.options = options;
        this.owner = options.owner().map(ByteBuffer::wrap);
        this.shares = shares;
        if (shares && options.permits() > 0 && options.weight() > options.permits()) {
            throw new IllegalArgumentException(
                    "weight is "
                            + options.weight()
                            + ": it takes 1 to the permits, which are "
                            + options.permits());
        }
    }

    @Override
    public HoldfastLock shared() {
        return shares ? this : shared(options.weight());
    }

    @Override
    public HoldfastLock shared(long weight) {
        if (shares && weight == options.weight()) {
            return this;
        }
        LockOptions chosen = options.weight(weight);
        return shared.computeIfAbsent(
                weight, w -> new MemoryLock(locks, book, name, chosen, true));
    }

    private MemoryState state() {
        return locks.state(name);
    }

    private <T> T asked(Supplier<T> work) {
        return book.server.locked(
                () -> {
                    book.checkOpen();
                    return work.get();
                });
    }

    // ---------------------------------------------------------------- Acquire

    @Override
    public Hold acquire() throws InterruptedException {
        return take(Long.MAX_VALUE, threads(), true);
    }

    @Override
    public Hold acquire(Duration timeout) throws InterruptedException {
        long nanos = TimeUnit.NANOSECONDS.convert(Millis.notNegative(timeout));
        Hold hold = take(nanos, threads(), true);
        if (hold == null) {
            throw timedOut(timeout);
        }
        return hold;
    }

    @Override
    public void lock() {
        takeUninterruptibly(Long.MAX_VALUE, options.lease(), options.renew());
    }

    @Override
    public void lock(Duration lease) {
        takeUninterruptibly(Long.MAX_VALUE, MemoryHold.checkLease(lease), options.renew());
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        take(Long.MAX_VALUE, request(true, options.lease(), options.renew()), true);
    }

    @Override
    public boolean tryLock() {
        return takeUninterruptibly(0, options.lease(), options.renew());
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        MemoryRequest request = request(true, options.lease(), options.renew());
        return take(unit.toNanos(time), request, true) != null;
    }

    @Override
    public boolean tryLock(Duration wait, Duration lease) throws InterruptedException {
        MemoryRequest request = request(true, MemoryHold.checkLease(lease), options.renew());
        return take(TimeUnit.NANOSECONDS.convert(wait), request, true) != null;
    }

    private MemoryRequest request(boolean kept, Duration lease, boolean renewed) {
        ByteBuffer caller = caller();
        ByteBuffer holder = caller;
        if (owner.isEmpty() && !options.reentrant()) {
            holder = book.owner('o');
        } else if (owner.isEmpty() && !kept) {
            holder = book.holder();
        }
        return request(holder, caller, kept, lease, renewed);
    }

    private MemoryRequest ownRequest(Object holder, Object caller) {
        return request(holder, caller, false, options.lease(), options.renew());
    }

    private MemoryRequest request(
            Object holder, Object caller, boolean kept, Duration lease, boolean renewed) {
        return new MemoryRequest(
                book, this, options, shares, holder, caller, kept, lease, renewed);
    }

    private ByteBuffer caller() {
        return owner.orElseGet(book::thread);
    }

    /** Makes the request for a Hold of the calling thread. */
    MemoryRequest threads() {
        return request(false, options.lease(), options.renew());
    }

    /** Makes the request for a Hold that is its own owner, or has the lock's. */
    MemoryRequest started() {
        return ownRequest(owner.orElseGet(() -> book.owner('o')), owner.orElse(null));
    }

    /** Returns the lock; refuses a lock of another client. */
    static MemoryLock of(HoldfastLock lock, MemoryBook book) {
        if (!(lock instanceof MemoryLock mine) || mine.book != book) {
            throw new IllegalArgumentException(lock + " is not a lock of this client");
        }
        return mine;
    }

    private boolean takeUninterruptibly(long nanos, Duration lease, boolean renewed) {
        try {
            return take(nanos, request(true, lease, renewed), false) != null;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** Acquires; returns null if other holders kept the lock. */
    private MemoryHold take(long nanos, MemoryRequest request, boolean interruptible)
            throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        Duration timeout = nanos == Long.MAX_VALUE ? Hold.FOREVER : Duration.ofNanos(nanos);
        return await(new MemoryWaiter(request, timeout, null), timeout, interruptible);
    }

    private MemoryHold await(MemoryWaiter waiter, Duration timeout, boolean interruptible)
            throws InterruptedException {
        start(waiter, timeout);
        Runnable timer = limit(waiter, timeout);
        try {
            return interruptible ? waiter.get() : waiter.join();
        } catch (InterruptedException e) {
            if (!leave(waiter, RefusalCause.CANCELLED)) {
                waiter.thenAccept(MemoryLock::giveUp);
            }
            throw e;
        } catch (ExecutionException | CompletionException e) {
            throw (RuntimeException) e.getCause();
        } finally {
            timer.run();
        }
    }

    /** Acquires or queues; without time to queue, the waiter has ended with null. */
    MemoryWaiter start(MemoryWaiter waiter, Duration timeout) {
        return asked(
                () -> {
                    MemoryRecord over = waiter.once != null ? state().outcome() : null;
                    if (over != null) {
                        waiter.done(over);
                        return waiter;
                    }
                    if (state().deadlocks(waiter.request)) {
                        book.counts.refused(RefusalCause.DEADLOCK);
                        throw new LockDeadlockException(
                                this
                                        + " is held shared by the owner that asks for "
                                        + (shares ? "a heavier hold of it" : "it exclusively"));
                    }
                    state().checkLimit(waiter.request);
                    boolean waits = timeout.compareTo(Duration.ZERO) > 0;
                    int place = waits ? state().place(waiter) : state().queue.size();
                    MemoryHold hold = state().grant(waiter.request, place == 0);
                    if (hold == null && waits) {
                        refuseToWaitForItself(waiter.request);
                        state().queue.add(place, waiter);
                        return waiter;
                    }
                    if (hold == null) {
                        book.counts.refused(RefusalCause.BUSY);
                    } else {
                        book.counts.acquired(Duration.ZERO, false);
                    }
                    waiter.complete(hold);
                    return waiter;
                });
    }

    /** Refuses to let a thread wait for a hold of its own. */
    private void refuseToWaitForItself(MemoryRequest request) {
        if (request.isNamed() || !options.reentrant() || request.caller() == null) {
            return;
        }
        state().holds(book)
                .filter(hold -> request.caller().equals(hold.request.caller()))
                .filter(hold -> !(request.kept() && hold.request.kept()))
                .findFirst()
                .ifPresent(
                        own -> {
                            book.counts.refused(RefusalCause.DEADLOCK);
                            throw new LockDeadlockException(
                                    "this thread holds " + this + " already, and would wait for"
                                            + " itself: only lock() nests, in lock()");
                        });
    }

    boolean leave(MemoryWaiter waiter, RefusalCause why) {
        return book.server.locked(() -> state().leave(waiter, why));
    }

    @Override
    public CompletableFuture<Hold> acquireAsync() {
        return acquireWithin(Hold.FOREVER);
    }

    @Override
    public CompletableFuture<Hold> acquireAsync(Duration timeout) {
        return acquireWithin(Millis.notNegative(timeout));
    }

    private static void giveUp(MemoryHold hold) {
        if (hold != null) {
            hold.giveUp();
        }
    }

    private CompletableFuture<Hold> acquireWithin(Duration timeout) {
        return begin(new MemoryWaiter(started(), timeout, null), timeout, ended -> ended.join());
    }

    private <T> CompletableFuture<T> begin(
            MemoryWaiter waiter, Duration timeout, Function<MemoryWaiter, T> made) {
        try {
            start(waiter, timeout);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
        CompletableFuture<T> future = new CompletableFuture<>();
        Runnable timer = limit(waiter, timeout);
        future.whenComplete(
                (hold, failure) -> {
                    if (leave(waiter, RefusalCause.CANCELLED)) {
                        waiter.complete(null);
                    }
                });
        waiter.whenCompleteAsync(
                (hold, failure) -> {
                    timer.run();
                    if (failure != null) {
                        future.completeExceptionally(failure);
                    } else if (hold == null && waiter.result == null) {
                        future.completeExceptionally(timedOut(timeout));
                    } else {
                        complete(future, waiter, made);
                    }
                },
                book.server.actions);
        return future;
    }

    private static <T> void complete(
            CompletableFuture<T> future, MemoryWaiter waiter, Function<MemoryWaiter, T> made) {
        T taken;
        try {
            taken = made.apply(waiter);
        } catch (RuntimeException e) {
            future.completeExceptionally(e);
            return;
        }
        if (future.complete(taken)) {
            return;
        }
        if (taken instanceof MemoryTurn turn && turn.result().isEmpty()) {
            turn.endAsync(Outcome.State.RETRY, new byte[0], Duration.ZERO);
        } else {
            giveUp(waiter.join());
        }
    }

    /** Ends the wait at its timeout; the caller runs the result if the wait has ended before. */
    Runnable limit(MemoryWaiter waiter, Duration timeout) {
        if (timeout.equals(Hold.FOREVER) || waiter.isDone()) {
            return () -> {};
        }
        return book.server.after(
                TimeUnit.NANOSECONDS.convert(timeout),
                () -> {
                    if (state().leave(waiter, RefusalCause.TIMEOUT)) {
                        waiter.complete(null);
                    }
                });
    }

    LockTimeoutException timedOut(Duration timeout) {
        return new LockTimeoutException(
                this + " was not acquired within " + timeout + ": others hold it",
                getName(),
                timeout,
                () -> inspect().holders());
    }

    @Override
    public Hold adopt(byte[] token) {
        Objects.requireNonNull(token, "token");
        return asked(() -> state().adopt(Bytes.text(token), ownRequest(null, null)));
    }

    // ------------------------------------------------------------------- Once

    @Override
    public Turn begin(OnceOptions<?> options) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        MemoryWaiter waiter = asker(options);
        if (await(waiter, options.timeout(), true) == null && waiter.result == null) {
            throw timedOut(options.timeout());
        }
        return turn(waiter);
    }

    @Override
    public CompletableFuture<Turn> beginAsync(OnceOptions<?> options) {
        return begin(asker(options), options.timeout(), this::turn);
    }

    /** Makes the acquire of a call, which is its own owner. */
    private MemoryWaiter asker(OnceOptions<?> options) {
        return new MemoryWaiter(
                ownRequest(book.owner('o'), null), options.timeout(), options);
    }

    private Turn turn(MemoryWaiter ended) {
        MemoryHold hold = ended.join();
        OnceOptions<?> options = ended.once;
        MemoryRecord over = ended.result;
        if (hold != null && options.atMostOnce()) {
            over = asked(() -> state().begin(hold, options));
        }
        return over == null
                ? new MemoryTurn(hold, null, options)
                : new MemoryTurn(null, over.told(this, options, this::settle), options);
    }

    @Override
    public Optional<Outcome> onceResult() {
        return asked(
                () ->
                        Optional.ofNullable(state().record())
                                .map(known -> known.seen(state().isHeld(known), this::settle)));
    }

    private void settle(
            Outcome.State said, long fence, boolean force, byte[] bytes, Duration ttl) {
        if (bytes.length > 1 << 24) {
            throw new IllegalArgumentException(
                    "the result has " + bytes.length + " bytes: at most " + (1 << 24));
        }
        MemoryRequest by = threads();
        asked(
                () -> {
                    state().settle(by, said, fence, force, bytes, ttl);
                    return null;
                });
    }

    // ---------------------------------------------------------------- Release

    @Override
    public void unlock() {
        asked(
                () -> {
                    MemoryHold hold = newest(state().kept.stream());
                    if (hold == null && newest(state().holds(book)) == null) {
                        hold = mine(state().kept.stream(), true).reduce((a, b) -> b).orElse(null);
                    }
                    if (hold == null) {
                        throw notHeld();
                    }
                    state().kept.remove(hold);
                    hold.release();
                    return null;
                });
    }

    @Override
    public boolean forceUnlock(long fence) {
        return asked(
                () -> state().holds.isEmpty() || state().take(fence));
    }

    // ------------------------------------------------------------------- Look

    /** Returns those of the holds that the caller has, or, for unlock(), those that it may unlock. */
    private Stream<MemoryHold> mine(Stream<MemoryHold> holds, boolean any) {
        ByteBuffer caller = caller();
        boolean perAcquire = owner.isEmpty() && !options.reentrant();
        return holds.filter(hold -> hold.request.book() == book)
                .filter(hold -> hold.request.shares() == shares)
                .filter(hold -> !(perAcquire && hold.request.kept()) || hold.request.lock() == this)
                .filter(hold -> any && perAcquire || caller.equals(hold.request.caller()));
    }

    /** Returns the caller's newest hold; null: it has none. */
    private MemoryHold newest(Stream<MemoryHold> holds) {
        return mine(holds, false).reduce((older, newer) -> newer).orElse(null);
    }

    @Override
    public boolean isHeldByCurrentThread() {
        return book.server.locked(() -> newest(state().holds(book)) != null);
    }

    @Override
    public int getHoldCount() {
        return book.server.locked(
                () ->
                        (int)
                                mine(state().holds(book), false)
                                        .filter(hold -> hold.request.kept())
                                        .count());
    }

    @Override
    public long fence() {
        return book.server.locked(
                () -> {
                    MemoryHold hold = newest(state().holds(book));
                    if (hold == null) {
                        throw notHeld();
                    }
                    return hold.fence();
                });
    }

    private LockNotHeldException notHeld() {
        return new LockNotHeldException(this + " is not held by the caller");
    }

    @Override
    public LockInfo inspect(long first) {
        if (first < 0) {
            throw new IllegalArgumentException("a list of holders cannot begin at " + first);
        }
        return asked(() -> state().seen(name, first));
    }

    @Override
    public String getName() {
        return Bytes.text(name);
    }

    /** Returns the name as text, which differs also for names that differ in bytes that are not UTF-8. */
    String shownName() {
        return Bytes.shown(name);
    }

    byte[] name() {
        return name;
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "InMemoryLock[" + getName() + (shares ? ", shared]" : "]");
    }
}
