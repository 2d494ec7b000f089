package io.holdfast.internal.redis;

import io.holdfast.ClosedException;
import io.holdfast.FingerprintMismatchException;
import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.holdfast.LockInfo;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockLimit;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockOptions;
import io.holdfast.LockTimeoutException;
import io.holdfast.LockUnknownException;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.OutcomeUnknownException;
import io.holdfast.Turn;
import io.holdfast.UnsupportedException;
import io.holdfast.internal.core.Awaited;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Handle;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_acquire_options;
import io.holdfast.internal.core.hf_lock_info;
import io.holdfast.internal.core.hf_lock_options;
import io.holdfast.internal.core.hf_once_info;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;

/** A lock on Redis. Most threads wait in native code; a virtual thread, or a pool's, starts the acquire and parks. */
final class RedisLock implements HoldfastLock {
    /** The argument for the lock's own lease and renewal. */
    private static final long OWN_LEASE = 0;

    private static final long FOREVER_NANOS = Long.MAX_VALUE;
    /** How long an interrupted wait may take to end; a healthy server needs less. */
    private static final long LEAVING_MILLIS = 5;

    private final Session client;
    private final byte[] name;
    private final byte[] owner;
    private final LockSettings options;
    private final boolean shares;
    /** The shared modes by weight, each made once: a lock without an owner releases only its own holds. */
    private final Map<Long, RedisLock> shared = new ConcurrentHashMap<>();

    /** If not perThread and without an owner: each thread's holds for unlock(), the newest first. */
    private final Map<Thread, Deque<Handle>> started =
            Collections.synchronizedMap(new WeakHashMap<>());

    private final boolean perThread;
    /** Whether each acquire is an owner of its own. */
    private final boolean perAcquire;
    private final boolean replicated;
    /** Acquires a {@link Hold}, which does not nest in another hold of its thread. */
    private final Handle handle;

    /** Serves the methods of {@code Lock}, whose holds nest; opened on first use. */
    private volatile Handle nesting;

    /** Finds the holds that the other mode of this lock has kept; opened on first use. */
    private Handle otherMode;

    RedisLock(Session client, byte[] name, LockSettings options, boolean shares) {
        this.client = client;
        this.name = name;
        this.options = options;
        this.shares = shares;
        this.owner = options.owner;
        this.perThread = options.reentrant && options.owner == null;
        this.perAcquire = !options.reentrant && options.owner == null;
        this.replicated = client.replicated || options.replicas > 0;
        this.handle = open(perThread ? options.with(o -> o.reentrant = false) : options, shares);
        this.nesting = perThread ? null : handle;
        if (options.alarmTimeouts > 0 || options.renew != Core.HF_OFF) { // else no renewal can fail
            client.listen();
        }
    }

    private Handle open(LockSettings options, boolean shared) {
        try (hf_lock_options core = options.toCore(shared)) {
            long lock = client.call(session -> Core.hf_lock_open(session, name, owner, core));
            Handle opened = new Handle(lock, Core::hf_lock_close);
            client.own(this, opened);
            return opened;
        }
    }

    private synchronized Handle nesting() {
        if (nesting == null) {
            nesting = open(options, shares);
        }
        return nesting;
    }

    @Override
    public HoldfastLock shared() {
        if (shares) {
            return this;
        }
        return shared(options.weight);
    }

    @Override
    public HoldfastLock shared(long weight) {
        if (shares && weight == options.weight) {
            return this;
        }
        LockOptions.defaults().weight(weight); // checks the weight
        LockSettings chosen = options.with(o -> o.weight = weight);
        return shared.computeIfAbsent(weight, w -> new RedisLock(client, name, chosen, true));
    }

    // ---------------------------------------------------------------- Acquire

    @Override
    public Hold acquire() throws InterruptedException {
        return acquireHold(FOREVER_NANOS, new String[1]);
    }

    @Override
    public Hold acquire(Duration timeout) throws InterruptedException {
        String[] why = {"others hold it"};
        Hold hold = acquireHold(TimeUnit.NANOSECONDS.convert(Millis.notNegative(timeout)), why);
        if (hold == null) {
            throw timedOut(timeout, why[0]);
        }
        return hold;
    }

    @Override
    public CompletableFuture<Hold> acquireAsync() {
        return acquireWithin(Hold.FOREVER);
    }

    @Override
    public CompletableFuture<Hold> acquireAsync(Duration timeout) {
        return acquireWithin(Millis.notNegative(timeout));
    }

    @Override
    public Hold adopt(byte[] token) {
        Objects.requireNonNull(token, "token");
        long[] hold = new long[1];
        Threads.blocking(() -> call(lock -> Core.hf_lock_adopt(lock, token, hold)));
        return RedisHold.of(client, this, null, hold[0]);
    }

    @Override
    public void lock() {
        takeUninterruptibly(FOREVER_NANOS, OWN_LEASE);
    }

    @Override
    public void lock(Duration lease) {
        takeUninterruptibly(FOREVER_NANOS, Millis.positive(lease, "lease"));
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        take(FOREVER_NANOS, OWN_LEASE, null, true, new String[1]);
    }

    @Override
    public boolean tryLock() {
        return takeUninterruptibly(0, OWN_LEASE);
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return take(unit.toNanos(time), OWN_LEASE, null, true, new String[1]);
    }

    @Override
    public boolean tryLock(Duration wait, Duration lease) throws InterruptedException {
        long nanos = TimeUnit.NANOSECONDS.convert(wait);
        return take(nanos, Millis.positive(lease, "lease"), null, true, new String[1]);
    }

    LockTimeoutException timedOut(Duration timeout, String why) {
        return new LockTimeoutException(
                this + " was not acquired within " + timeout + ": " + why,
                getName(),
                timeout,
                () -> inspect().holders());
    }

    private Hold acquireHold(long nanos, String[] why) throws InterruptedException {
        long[] hold = new long[1];
        Held.Key key = key(shares); // before the acquire, so that a failure loses no hold
        return take(nanos, OWN_LEASE, hold, true, why)
                ? RedisHold.of(client, this, key, hold[0])
                : null;
    }

    private boolean takeUninterruptibly(long nanos, long leaseMillis) {
        try {
            return take(nanos, leaseMillis, null, false, new String[1]);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Acquires into hold[0], or, if hold is null, for {@link #unlock()}. If other holders kept the lock
     * until the time was up, why[0] has the reason.
     */
    private boolean take(
            long nanos, long leaseMillis, long[] hold, boolean interruptible, String[] why)
            throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        boolean kept = hold == null;
        long timeout = timeout(Math.max(nanos, 0));
        boolean itself = nanos > 0 && perThread && holdsItself(kept);
        if (kept) {
            client.keeps = true;
        }
        try {
            why[0] =
                    mayBlock(interruptible)
                            ? block(timeout, leaseMillis, itself, hold, interruptible)
                            : park(timeout, leaseMillis, itself, hold, interruptible);
            return why[0] == null;
        } catch (LockDeadlockException e) {
            if (!itself) {
                throw e;
            }
            throw new LockDeadlockException(
                    "this thread holds "
                            + this
                            + " already, and would wait for itself: only lock() nests, in lock()."
                            + " Release it first; if another thread does, use acquireAsync() or"
                            + " reentrant(false)");
        }
    }

    /** Whether the thread has a hold, in either mode, for which the acquire would wait. */
    boolean holdsItself(boolean kept) {
        return client.held.newest(key(false)) != null
                || client.held.newest(key(true)) != null
                || (!kept && client.keeps && keepsAny());
    }

    /** Whether the thread has a hold to unlock(), in either mode, through any object. */
    private boolean keepsAny() {
        return count(handle) + count(otherMode()) > 0;
    }

    private int count(Handle opened) {
        Integer kept = opened.call(lock -> (int) Core.hf_lock_count_as(lock, owner(true)));
        Reference.reachabilityFence(this);
        return kept == null ? 0 : kept;
    }

    private synchronized Handle otherMode() {
        if (otherMode == null) {
            try {
                otherMode = open(options.with(o -> o.weight = 1), !shares);
            } catch (UnsupportedException e) {
                otherMode = handle; // a quorum has no shared holds
            }
        }
        return otherMode;
    }

    /** Whether to wait in native code: a brake does not end a wait for replicas or for a whole lease. */
    private boolean mayBlock(boolean interruptible) {
        return Threads.mayBlock() && !(interruptible && (replicated || options.whole));
    }

    /** Acquires on this thread; returns null, or why the lock was not acquired in time. */
    private String block(
            long timeout, long leaseMillis, boolean itself, long[] hold, boolean interruptible)
            throws InterruptedException {
        boolean kept = hold == null;
        long[] taken = kept && perAcquire ? new long[1] : hold;
        byte[] note = options.tracedNote();
        byte[] busy;
        try (hf_acquire_options how =
                leaseMillis == OWN_LEASE && !options.whole && !itself && note == null && taken == hold
                        ? null
                        : how(leaseMillis, kept, itself, note)) {
            LongFunction<byte[]> acquire =
                    brake ->
                            call(
                                    kept ? nesting() : handle,
                                    lock ->
                                            Core.acquire(
                                                    lock, owner(kept), timeout, how, taken, brake));
            busy = interruptible ? client.interruptibly(acquire) : acquire.apply(0);
        } catch (RuntimeException e) {
            if (interruptible && Thread.interrupted()) {
                throw new InterruptedException();
            }
            throw e;
        }
        if (interruptible && Thread.interrupted()) {
            if (busy == null) {
                client.abandon(taken == null ? newest() : taken[0]);
            }
            throw new InterruptedException();
        }
        if (busy == null && taken != hold) {
            keep(taken[0]);
        }
        return busy == null ? null : Bytes.text(busy);
    }

    private static hf_acquire_options acquireOptions(byte[] note) {
        hf_acquire_options options = new hf_acquire_options();
        if (note != null) {
            options.set_note(note);
        }
        return options;
    }

    /** Returns the options of an acquire for a Hold; the caller closes them. */
    hf_acquire_options how(boolean itself) {
        return how(OWN_LEASE, false, itself, options.tracedNote());
    }

    private hf_acquire_options how(
            long leaseMillis, boolean kept, boolean itself, byte[] note) {
        hf_acquire_options how = acquireOptions(note);
        how.setLease_ms(leaseMillis);
        how.setFlags(
                (kept ? Core.HF_ACQUIRE_KEEP : 0)
                        | (options.whole ? Core.HF_ACQUIRE_WHOLE : 0)
                        | (itself ? Core.HF_ACQUIRE_HOLDS : 0));
        return how;
    }

    private Completions.Operation start(
            byte[] owner, long timeoutMillis, long leaseMillis, boolean kept, boolean itself) {
        try (hf_acquire_options how =
                how(leaseMillis, kept, itself, options.tracedNote())) {
            return client.start(
                    number ->
                            call(
                                    kept ? nesting() : handle,
                                    lock ->
                                            Core.hf_lock_acquire_start(
                                                    lock, owner, timeoutMillis, how, number)));
        }
    }

    /** Starts an acquire and parks; returns null, or why the lock was not acquired in time. */
    private String park(
            long timeout, long leaseMillis, boolean itself, long[] hold, boolean interruptible)
            throws InterruptedException {
        boolean kept = hold == null;
        Completions.Outcome outcome =
                await(start(owner(kept), timeout, leaseMillis, kept, itself), interruptible);
        if (isBusy(outcome)) {
            return outcome.text();
        }
        outcome.check();
        if (kept) {
            keep(outcome.hold());
        } else {
            hold[0] = outcome.hold();
        }
        return null;
    }

    /** Leaves a hold to {@link #unlock()}, which first releases those that its own thread started. */
    private void keep(long pointer) {
        if (!perAcquire) {
            Core.hf_hold_close(pointer);
            return;
        }
        Handle hold = null;
        Deque<Handle> own = null;
        try {
            hold = new Handle(pointer, Core::hf_hold_close);
            own = started.computeIfAbsent(Thread.currentThread(), t -> new ArrayDeque<>(1));
            own.removeIf(RedisLock::wasReleased); // released by other threads
            own.push(hold);
            hold.whenDropped(own, hold::close); // last: if an earlier step fails, the hold is abandoned below
        } catch (RuntimeException | Error e) { // the caller will not unlock() it
            if (own != null) {
                own.remove(hold);
            }
            client.abandon(pointer);
            throw e;
        }
    }

    private static boolean wasReleased(Handle hold) {
        boolean released = hold.call(Core::hf_hold_state) == Core.HF_STATE_RELEASED;
        if (released) {
            hold.close();
        }
        return released;
    }

    private Completions.Outcome await(Completions.Operation operation, boolean interruptible)
            throws InterruptedException {
        try {
            return interruptible ? operation.get() : operation.join();
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            leave(operation);
            throw e;
        }
    }

    private static boolean isBusy(Completions.Outcome outcome) {
        return outcome.status() == Core.HF_EBUSY || outcome.status() == Core.HF_ETIMEOUT;
    }

    /** Gives up an acquire; a server that does not answer gets the request later. */
    private void leave(Completions.Operation operation) {
        client.cancel(operation);
        CompletableFuture<?> left =
                operation.thenComposeAsync(
                        outcome ->
                                outcome.hold() != 0
                                        ? client.abandon(outcome.hold())
                                        : operation,
                        client.actions::executeHere);
        try {
            left.get(LEAVING_MILLIS, TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            // The operation goes on without this thread.
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private CompletableFuture<Hold> acquireWithin(Duration timeout) {
        Held.Key key = holdKey(false);
        return begin(
                outcome -> timedOut(timeout, outcome.text()),
                () -> start(owner, Millis.timeout(timeout), OWN_LEASE, false, false),
                UnaryOperator.identity(),
                outcome -> RedisHold.of(client, this, key, outcome.hold()),
                Hold::releaseAsync,
                false);
    }

    /** Returns the key under which a Hold is found, the calling thread's or the owner's; null: it is not found. */
    Held.Key holdKey(boolean byThread) {
        return byThread || owner != null ? key(shares) : null;
    }

    /**
     * Starts an acquire, and applies then to its outcome. The future gets the result of made, or, if it has
     * ended before, unwanted does. If awaited, the caller's thread waits for the future.
     */
    <T> CompletableFuture<T> begin(
            Function<Completions.Outcome, LockTimeoutException> busy,
            Supplier<Completions.Operation> start,
            UnaryOperator<CompletableFuture<Completions.Outcome>> then,
            Function<Completions.Outcome, T> made,
            Consumer<T> unwanted,
            boolean awaited) {
        CompletableFuture<T> future = awaited ? new Awaited<>() : new CompletableFuture<>();
        Completions.Operation operation;
        try {
            operation = start.get();
        } catch (ClosedException e) {
            return CompletableFuture.failedFuture(e);
        }
        future.whenComplete(
                (hold, failure) -> {
                    if (!operation.isDone()) {
                        client.cancel(operation);
                    }
                });
        then.apply(operation)
                .thenAcceptAsync(
                        outcome -> tell(future, outcome, busy, made, unwanted),
                        awaited ? Runnable::run : client.actions)
                .whenComplete(
                        (told, failure) -> {
                            if (failure != null) { // the mark or the report failed
                                Throwable cause = failure.getCause();
                                future.completeExceptionally(cause == null ? failure : cause);
                            }
                        });
        return future;
    }

    private <T> void tell(
            CompletableFuture<T> future,
            Completions.Outcome outcome,
            Function<Completions.Outcome, LockTimeoutException> busy,
            Function<Completions.Outcome, T> made,
            Consumer<T> unwanted) {
        T taken = null;
        Throwable failure = null;
        if (!isBusy(outcome) && outcome.hold() != 0) {
            try {
                taken = made.apply(outcome);
            } catch (RuntimeException | Error e) {
                failure = e;
            }
        }
        for (;;) {
            try {
                if (failure != null) {
                    future.completeExceptionally(failure);
                } else if (taken == null) {
                    future.completeExceptionally(
                            isBusy(outcome) ? busy.apply(outcome) : outcome.failure());
                } else if (!future.complete(taken)
                        && (future.isCompletedExceptionally() || future.getNow(null) != taken)) {
                    unwanted.accept(taken);
                }
                return;
            } catch (OutOfMemoryError e) { // else the future would never end
                if (!client.actions.awaitMemory()) {
                    throw e;
                }
            }
        }
    }

    // ------------------------------------------------------------------- Once

    @Override
    public Turn begin(OnceOptions<?> options) throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
        Completions.Outcome begun = await(startTurn(options), true);
        if (isBusy(begun)) {
            throw timedOut(options.timeout(), begun.text());
        }
        Completions.Outcome outcome = options.atMostOnce() ? marked(begun, options) : begun;
        if (outcome.hold() == 0) {
            throw Threads.raised(outcome.failure());
        }
        return turn(outcome, options);
    }

    @Override
    public CompletableFuture<Turn> beginAsync(OnceOptions<?> options) {
        return begin(
                outcome -> timedOut(options.timeout(), outcome.text()),
                () -> startTurn(options),
                operation -> // waits for an answer: not in the user's executor
                        options.atMostOnce()
                                ? operation.thenApplyAsync(
                                        begun -> marked(begun, options),
                                        client.actions::executeHere)
                                : operation,
                outcome -> turn(outcome, options),
                RedisLock::passOn,
                false);
    }

    private Completions.Operation startTurn(OnceOptions<?> options) {
        long millis = Millis.timeout(options.timeout());
        byte[] print = options.fingerprint().orElse(null);
        try (hf_acquire_options core = acquireOptions(this.options.tracedNote())) {
            core.setFlags(options.atMostOnce() ? Core.HF_ACQUIRE_AT_MOST_ONCE : 0);
            return client.start(
                    number ->
                            call(
                                    lock ->
                                            Core.hf_once_begin_start(
                                                    lock, millis, core, print, number)));
        }
    }

    /** Marks on the server that a call begins which is made at most once. */
    private Completions.Outcome marked(Completions.Outcome begun, OnceOptions<?> options) {
        if (begun.status() != Core.HF_OK) {
            return begun;
        }
        try {
            return Threads.blocking(() -> mark(begun, options));
        } catch (RuntimeException | Error e) { // such as a full heap
            client.abandon(begun.hold());
            throw e;
        }
    }

    private static Completions.Outcome mark(Completions.Outcome begun, OnceOptions<?> options) {
        long unknown = Millis.timeout(options.unknownTtl());
        int status = Core.hf_once_mark(begun.hold(), unknown, Bytes.of(options.note()));
        if (status == Core.HF_OK) {
            return begun;
        }
        var error = Core.hf_error_last();
        String text = Bytes.text(error.getMessage());
        long[] hold = {isOutcome(status) ? begun.hold() : 0};
        Completions.Outcome outcome =
                new Completions.Outcome(
                        status, hold, 0, error.getReplicas(), error.getCause(), text);
        if (hold[0] == 0) { // last: if an earlier step fails, the caller abandons the hold
            Core.hf_hold_close(begun.hold());
        }
        return outcome;
    }

    /** Whether the handle has the outcome of the call. */
    private static boolean isOutcome(int status) {
        return status == Core.HF_EDONE
                || status == Core.HF_EFAILED
                || status == Core.HF_EOUTCOME
                || status == Core.HF_EMISMATCH;
    }

    private Turn turn(Completions.Outcome outcome, OnceOptions<?> options) {
        long hold = outcome.hold();
        if (outcome.status() == Core.HF_OK) {
            return new RedisTurn(
                    RedisHold.of(client, this, null, hold), null, options.atMostOnce());
        }
        try {
            Outcome known = outcome(hold).orElseThrow();
            switch (outcome.status()) {
                case Core.HF_EDONE:
                    return new RedisTurn(null, known.result().orElseThrow(), false);
                case Core.HF_EFAILED:
                    throw known.error().orElseThrow();
                case Core.HF_EOUTCOME:
                    throw new OutcomeUnknownException(outcome.text(), known);
                default:
                    throw new FingerprintMismatchException(outcome.text());
            }
        } finally {
            Core.hf_hold_close(hold);
        }
    }

    @Override
    public Optional<Outcome> onceResult() {
        return Threads.blocking(
                () -> {
                    long[] hold = new long[1];
                    call(lock -> Core.hf_once_look(lock, hold));
                    try {
                        return outcome(hold[0]);
                    } finally {
                        Core.hf_hold_close(hold[0]);
                    }
                });
    }

    /** Returns the record of a call, as its handle has it. */
    private Optional<Outcome> outcome(long hold) {
        try (hf_once_info info = new hf_once_info()) {
            Core.hf_once_outcome(hold, info);
            return Views.of(info, Core.hf_hold_result(hold), this::settle);
        }
    }

    private void settle(
            Outcome.State state, long fence, boolean force, byte[] bytes, Duration ttl) {
        int said = state == null ? Core.HF_ONCE_NONE : Views.number(state);
        long flags = force ? Core.HF_SETTLE_FORCE : 0;
        Threads.blocking(
                () ->
                        call(
                                lock ->
                                        Core.hf_once_settle(
                                                lock,
                                                said,
                                                fence,
                                                flags,
                                                bytes,
                                                Millis.of(ttl),
                                                null)));
    }

    private static void passOn(Turn turn) {
        if (turn.result().isEmpty()) {
            turn.endAsync(Outcome.State.RETRY, new byte[0], Duration.ZERO);
        }
    }

    // ---------------------------------------------------------------- Release

    @Override
    public void unlock() {
        if (Threads.mayBlock() && !perAcquire) {
            call(nesting(), lock -> Core.hf_lock_release_as(lock, owner(true)));
        } else {
            unlockNewest();
        }
    }

    private void unlockNewest() {
        for (;;) {
            Deque<Handle> own = started.get(Thread.currentThread());
            Handle hold = takeNewest(own);
            try {
                release(hold);
                return;
            } catch (LockNotHeldException e) {
                if (e instanceof LockLostException) {
                    throw e;
                }
                // Another thread of the same owner was faster: try the next hold.
            } finally {
                hold.close();
                Reference.reachabilityFence(own); // else its Cleaner may close the hold too early
            }
        }
    }

    private void release(Handle hold) {
        if (Threads.mayBlock()) {
            hold.call(Core::hf_hold_release, Session::closed);
            return;
        }
        client.start(
                        number ->
                                hold.call(
                                        pointer -> Core.hf_hold_release_start(pointer, number),
                                        Session::closed))
                .join()
                .check();
    }

    /** Takes the newest hold of this thread, or else the newest of all; the caller closes it. */
    private Handle takeNewest(Deque<Handle> own) {
        Handle hold = own == null ? null : own.poll();
        if (own != null && own.isEmpty()) {
            started.remove(Thread.currentThread());
        }
        if (hold == null && perAcquire && inHand() != null) {
            throw new LockNotHeldException(
                    "this thread holds " + this + " by acquire(): release that Hold");
        }
        return hold != null ? hold : new Handle(newest(), Core::hf_hold_close);
    }

    /** Returns the newest hold that {@link #unlock()} must release; the caller closes it. */
    private long newest() {
        long[] hold = new long[1];
        call(nesting(), lock -> Core.hf_lock_current_as(lock, owner(true), hold));
        return hold[0];
    }

    @Override
    public boolean forceUnlock(long fence) {
        try {
            Threads.blocking(() -> call(lock -> Core.hf_lock_break(lock, fence, 0)));
            return true;
        } catch (LockNotHeldException wentOn) {
            return false;
        }
    }

    // ------------------------------------------------------------------- Look

    @Override
    public boolean isHeldByCurrentThread() {
        return getHoldCount() > 0 || inHand() != null;
    }

    /** Returns the caller's newest Hold; null: it has none. */
    private Hold inHand() {
        try {
            return client.held.newest(key(shares));
        } catch (ClosedException e) { // of a thread that had no owner before the close
            return null;
        }
    }

    @Override
    public int getHoldCount() {
        return perAcquire ? (int) own().count() : client.keeps ? count(handle) : 0;
    }

    /** Returns this thread's holds for unlock() that are not lost, the newest first. */
    private Stream<Handle> own() {
        return started.getOrDefault(Thread.currentThread(), new ArrayDeque<>()).stream()
                .filter(hold -> hold.call(Core::hf_hold_state) == Core.HF_STATE_HELD);
    }

    @Override
    public long fence() {
        Optional<Long> fence = own().map(hold -> hold.call(Core::hf_hold_fence)).findFirst();
        if (fence.isPresent()) {
            return fence.get();
        }
        if (getHoldCount() > 0) {
            long hold = newest();
            try {
                return Core.hf_hold_fence(hold);
            } finally {
                Core.hf_hold_close(hold);
            }
        }
        Hold hold = inHand();
        if (hold == null) {
            throw new LockNotHeldException(this + " is not held by the caller");
        }
        return hold.fence();
    }

    @Override
    public LockInfo inspect(long first) {
        return Threads.blocking(() -> look(first));
    }

    private LockInfo look(long first) {
        try (hf_lock_info info = new hf_lock_info()) {
            return Views.of(info, call(lock -> Core.hf_lock_inspect(lock, first, info)));
        }
    }

    /** Stores a limit with the name; returns the limit that was stored before. */
    Optional<LockLimit> limit(LockLimit limit) {
        long per = Millis.of(limit.per());
        return Threads.blocking(
                () -> {
                    long[] was = call(lock -> Core.hf_lock_limit(lock, limit.permits(), per));
                    return Views.limit(was[0], was[1]);
                });
    }

    @Override
    public String getName() {
        return Bytes.text(name);
    }

    /** Returns the name as text, which differs also for names that differ in bytes that are not UTF-8. */
    String shownName() {
        return Bytes.shown(name);
    }

    /** Returns a text for people to read; sends nothing. */
    @Override
    public String toString() {
        return "RedisLock[" + getName() + (shares ? ", shared]" : "]");
    }

    /** Keeps this object reachable until the call ends, so that no cleaner closes the handle. */
    private <T> T call(Handle opened, LongFunction<T> function) {
        try {
            return opened.call(function, Session::closed);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private <T> T call(LongFunction<T> function) {
        return call(handle, function);
    }

    /** Returns the core's lock that acquires a Hold; valid while this object is reachable. */
    long pointer() {
        return call(lock -> lock);
    }

    /** Returns the lock; refuses a lock of another client. */
    static RedisLock of(HoldfastLock lock, Session client) {
        if (!(lock instanceof RedisLock mine) || mine.client != client) {
            throw new IllegalArgumentException(lock + " is not a lock of this client");
        }
        return mine;
    }

    /** Whether a Hold's owner is the calling thread. */
    boolean isPerThread() {
        return perThread;
    }

    /** Returns the owner that acquires and releases; null: the core derives it from the options. */
    private byte[] owner(boolean kept) {
        return !perThread ? null : kept ? client.threadOwner() : client.holdOwner();
    }

    /** Returns the key under which the caller's holds in hand are found. */
    private Held.Key key(boolean shared) {
        return Held.Key.of(name, owner == null ? client.threadOwner() : owner, shared);
    }

    /** Rounds up, so that no timeout is early. */
    private static long timeout(long nanos) {
        return nanos > FOREVER_NANOS - 1_000_000 ? Millis.ENDLESS : (nanos + 999_999) / 1_000_000;
    }
}
