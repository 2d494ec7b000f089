package io.holdfast.internal.redis;

import io.holdfast.ClosedException;
import io.holdfast.FingerprintMismatchException;
import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.holdfast.LockInfo;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockTimeoutException;
import io.holdfast.LockUnknownException;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.OutcomeUnknownException;
import io.holdfast.Turn;
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
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/** The lock on Redis. A platform thread may ask on its own; a virtual one starts and parks. */
final class RedisLock implements HoldfastLock {
    /** An acquire with the lock's lease and renewal. */
    private static final long OWN_LEASE = 0;

    private static final long FOREVER_NANOS = Long.MAX_VALUE;
    /** Of a try that may not be all of an acquire; the core only reads it. */
    private static final hf_acquire_options UNCOUNTED = new hf_acquire_options();

    static {
        UNCOUNTED.setFlags(Core.HF_ACQUIRE_UNCOUNTED);
    }

    /** How long an interrupted wait may take to end; a server that is well needs less. */
    private static final long LEAVING_MILLIS = 5;

    /** For how long a try must have been without its answer to spend the time of the call. */
    private static final long SILENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

    private final Session client;
    private final byte[] name;
    private final byte[] owner;
    private final LockSettings options;
    private final boolean shares;
    /** Made when it is first asked for; one, because without an owner only it releases its holds. */
    private final AtomicReference<RedisLock> shared = new AtomicReference<>();

    private final boolean perThread;
    private final boolean replicated;
    /** For a {@link Hold}: it does not nest in another hold of its thread. */
    private final Handle handle;

    /** For the methods of {@code Lock}, opened by the first of them: they nest. */
    private volatile Handle nesting;

    RedisLock(Session client, byte[] name, LockSettings options, boolean shares) {
        this.client = client;
        this.name = name;
        this.options = options;
        this.shares = shares;
        this.owner = options.owner;
        this.perThread = options.reentrant && options.owner == null;
        this.replicated = options.replicas > 0;
        this.handle = open(perThread ? options.with(o -> o.reentrant = false) : options);
        this.nesting = perThread ? null : handle;
        if (options.alarmTimeouts > 0 || options.renew != Core.HF_OFF) { // else no renewal can fail
            client.listen();
        }
    }

    private Handle open(LockSettings options) {
        try (hf_lock_options core = options.toCore(shares)) {
            long lock = client.call(session -> Core.hf_lock_open(session, name, owner, core));
            Handle opened = new Handle(lock, Core::hf_lock_close);
            opened.whenDropped(this, opened::close);
            return opened;
        }
    }

    private synchronized Handle nesting() {
        if (nesting == null) {
            nesting = open(options);
        }
        return nesting;
    }

    @Override
    public HoldfastLock shared() {
        if (shares) {
            return this;
        }
        RedisLock known = shared.get();
        if (known == null) {
            shared.compareAndSet(null, new RedisLock(client, name, options, true));
            known = shared.get();
        }
        return known;
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
        return new RedisHold(client, this, null, hold[0]);
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

    private LockTimeoutException timedOut(Duration timeout, String why) {
        return new LockTimeoutException(
                this + " was not acquired within " + timeout + ": " + why,
                getName(),
                timeout,
                () -> inspect().holders());
    }

    private Hold acquireHold(long nanos, String[] why) throws InterruptedException {
        long[] hold = new long[1];
        return take(nanos, OWN_LEASE, hold, true, why)
                ? new RedisHold(client, this, key(shares), hold[0])
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
     * Acquires into hold[0], or, if hold is null, for {@link #unlock()}. Tries on this thread if
     * that may block and is worth it, which is one round trip; otherwise queues at once, and parks.
     * If others kept the lock until the time was up, why[0] tells, unless only a try found that.
     */
    private boolean take(
            long nanos, long leaseMillis, long[] hold, boolean interruptible, String[] why)
            throws InterruptedException {
        if (interruptible && Thread.interrupted()) {
            throw new InterruptedException();
        }
        byte[] owner = owner(hold == null);
        long left = Math.max(nanos, 0);
        boolean tries = mayTry(interruptible) && !isContended();
        if (tries) {
            long start = System.nanoTime();
            int tried = attempt(owner, leaseMillis, hold, interruptible, nanos > 0);
            boolean taken = tried == Core.HF_OK;
            if (interruptible && Thread.interrupted()) {
                giveUp(tried, hold, nanos);
                throw new InterruptedException();
            }
            long spent = System.nanoTime() - start;
            left = nanos == FOREVER_NANOS ? nanos : left - spent;
            if (taken || (left <= 0 && isOver(tried, spent, interruptible || nanos > 0, nanos))) {
                client.heard();
                return taken;
            }
            if (tried == Core.HF_EBUSY) {
                client.heard();
            }
            left = Math.max(left, 0);
        }
        if (left > 0 && perThread && holdsItself(hold == null)) {
            if (!tries && await(start(owner, 0, leaseMillis, hold == null), hold, interruptible, why)) {
                return true;
            }
            count(Core.HF_EDEADLOCK, nanos);
            throw new LockDeadlockException(
                    "this thread holds "
                            + this
                            + " already, and would wait for itself: only lock() nests, in lock()."
                            + " Release it first; if another thread does, use acquireAsync() or"
                            + " reentrant(false)");
        }
        return await(
                start(owner, timeout(left), leaseMillis, hold == null), hold, interruptible, why);
    }

    /** Whether the thread has a hold, in either mode, for which the acquire would wait. */
    private boolean holdsItself(boolean kept) {
        return client.held.newest(key(false)) != null
                || client.held.newest(key(true)) != null
                || (!kept && (keeps(false) || keeps(true)));
    }

    /** Whether the thread has something to unlock(), through any object of this name. */
    private boolean keeps(boolean shared) {
        try (hf_lock_options core = options.toCore(shared)) {
            return client.call(
                    session -> {
                        long lock = Core.hf_lock_open(session, name, owner, core);
                        try {
                            return Core.hf_lock_count_as(lock, owner(true)) > 0;
                        } finally {
                            Core.hf_lock_close(lock);
                        }
                    });
        }
    }

    private boolean isContended() {
        return call(lock -> Core.hf_lock_contended(lock) != 0);
    }

    /** To wait for replicas is more than one answer, and nothing for a brake. */
    private boolean mayTry(boolean interruptible) {
        return client.mayBlock(interruptible) && !(interruptible && replicated);
    }

    /**
     * One try on this thread. HF_OK: it is held. HF_EBUSY: it is not. Else an interruptible one
     * came to nothing, and a started acquire will tell why if it must. more: it may not be all.
     */
    private int attempt(
            byte[] owner, long leaseMillis, long[] hold, boolean interruptible, boolean more) {
        boolean uncounted = interruptible || more;
        byte[] note = this.options.tracedNote();
        if (leaseMillis == OWN_LEASE && note == null) {
            return attempt(owner, uncounted ? UNCOUNTED : null, hold, interruptible);
        }
        try (hf_acquire_options options = acquireOptions(note)) {
            options.setLease_ms(leaseMillis);
            options.setFlags(uncounted ? Core.HF_ACQUIRE_UNCOUNTED : 0);
            return attempt(owner, options, hold, interruptible);
        }
    }

    private static hf_acquire_options acquireOptions(byte[] note) {
        hf_acquire_options options = new hf_acquire_options();
        if (note != null) {
            options.set_note(note);
        }
        return options;
    }

    private int attempt(
            byte[] owner, hf_acquire_options options, long[] hold, boolean interruptible) {
        if (!interruptible) {
            boolean taken =
                    call(hold == null ? nesting() : handle, lock -> Core.hf_lock_acquire_as(lock, owner, 0, options, hold));
            return taken ? Core.HF_OK : Core.HF_EBUSY;
        }
        return client.interruptibly(
                brake -> call(hold == null ? nesting() : handle, lock -> Core.braked_try(lock, owner, options, hold, brake)));
    }

    /** What an interrupted try leaves behind. What is in doubt, the core undoes. */
    private void giveUp(int tried, long[] hold, long nanos) {
        if (tried == Core.HF_OK) {
            client.abandon(hold == null ? newest() : hold[0]);
        } else {
            count(Core.HF_ECANCELED, nanos);
        }
    }

    /** Whether a try, for which the time of the call is up now, was all of the call. */
    private boolean isOver(int tried, long spent, boolean uncounted, long nanos) {
        if (tried == Core.HF_EUNKNOWN && spent > SILENCE_NANOS) {
            count(tried, nanos);
            throw new LockUnknownException(
                    "the answer was lost, and " + this + " may be held until its lease ends");
        }
        if (tried == Core.HF_EBUSY && uncounted) {
            count(nanos > 0 ? Core.HF_ETIMEOUT : Core.HF_EBUSY, nanos);
        }
        return tried == Core.HF_EBUSY;
    }

    /** Counts an acquire of which nothing but a try was made. */
    private void count(int status, long nanos) {
        call(lock -> Core.hf_lock_ended(lock, status, timeout(Math.max(nanos, 0))));
    }

    private Completions.Operation start(
            byte[] owner, long timeoutMillis, long leaseMillis, boolean keep) {
        try (hf_acquire_options options = acquireOptions(this.options.tracedNote())) {
            options.setLease_ms(leaseMillis);
            options.setFlags(
                    (keep ? Core.HF_ACQUIRE_KEEP : 0)
                            | (this.options.whole ? Core.HF_ACQUIRE_WHOLE : 0));
            return client.start(
                    number ->
                            call(
                                    keep ? nesting() : handle,
                                    lock ->
                                            Core.hf_lock_acquire_start(
                                                    lock, owner, timeoutMillis, options, number)));
        }
    }

    private boolean await(
            Completions.Operation operation, long[] hold, boolean interruptible, String[] why)
            throws InterruptedException {
        Completions.Outcome outcome = await(operation, interruptible);
        if (isBusy(outcome)) {
            why[0] = outcome.text();
            return false;
        }
        outcome.check();
        if (hold != null) {
            hold[0] = outcome.hold();
        } else {
            Core.hf_hold_close(outcome.hold());
        }
        return true;
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

    /** Gives up an acquire; a server that does not answer is told later. */
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
            // It goes on without this thread.
        } catch (ExecutionException e) {
            throw new AssertionError(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private CompletableFuture<Hold> acquireWithin(Duration timeout) {
        return begin(
                timeout,
                () -> start(owner, Millis.timeout(timeout), OWN_LEASE, false),
                outcome -> taken(outcome.hold()),
                Hold::releaseAsync);
    }

    private Hold taken(long hold) {
        Held.Key key = owner == null ? null : Held.Key.of(name, owner, shares);
        return new RedisHold(client, this, key, hold);
    }

    /** Starts an acquire, and makes of its hold what the future gives, unless it is unwanted. */
    private <T> CompletableFuture<T> begin(
            Duration timeout,
            Supplier<Completions.Operation> start,
            Function<Completions.Outcome, T> made,
            Consumer<T> unwanted) {
        return begin(timeout, start, operation -> operation, made, unwanted);
    }

    /** The same, with something to be done first with what it has acquired. */
    private <T> CompletableFuture<T> begin(
            Duration timeout,
            Supplier<Completions.Operation> start,
            UnaryOperator<CompletableFuture<Completions.Outcome>> then,
            Function<Completions.Outcome, T> made,
            Consumer<T> unwanted) {
        CompletableFuture<T> future = new CompletableFuture<>();
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
                        outcome -> tell(future, outcome, timeout, made, unwanted),
                        client.actions);
        return future;
    }

    private <T> void tell(
            CompletableFuture<T> future,
            Completions.Outcome outcome,
            Duration timeout,
            Function<Completions.Outcome, T> made,
            Consumer<T> unwanted) {
        if (isBusy(outcome)) {
            future.completeExceptionally(timedOut(timeout, outcome.text()));
        } else if (outcome.hold() == 0) {
            future.completeExceptionally(outcome.failure());
        } else {
            T taken;
            try {
                taken = made.apply(outcome);
            } catch (RuntimeException | Error e) {
                future.completeExceptionally(e);
                return;
            }
            if (!future.complete(taken)) {
                unwanted.accept(taken);
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
        Completions.Outcome outcome = Threads.blocking(() -> marked(begun, options));
        if (outcome.hold() == 0) {
            throw Threads.raised(outcome.failure());
        }
        return turn(outcome, options);
    }

    @Override
    public CompletableFuture<Turn> beginAsync(OnceOptions<?> options) {
        return begin(
                options.timeout(),
                () -> startTurn(options),
                operation -> // its answer takes a while: elsewhere than in the user's executor
                        options.atMostOnce()
                                ? operation.thenApplyAsync(
                                        begun -> marked(begun, options),
                                        client.actions::executeHere)
                                : operation,
                outcome -> turn(outcome, options),
                RedisLock::passOn);
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

    /** Tells the server that a call begins which is made at most once. */
    private static Completions.Outcome marked(Completions.Outcome begun, OnceOptions<?> options) {
        if (!options.atMostOnce() || begun.status() != Core.HF_OK) {
            return begun;
        }
        long unknown = Millis.timeout(options.unknownTtl());
        int status = Core.hf_once_mark(begun.hold(), unknown, Bytes.of(options.note()));
        if (status == Core.HF_OK) {
            return begun;
        }
        var error = Core.hf_error_last();
        String text = Bytes.text(error.getMessage());
        long hold = begun.hold();
        if (!isOutcome(status)) {
            Core.hf_hold_close(hold);
            hold = 0;
        }
        return new Completions.Outcome(
                status, hold, error.getReplicas(), error.getCause(), text);
    }

    /** Whether the handle tells what became of the call. */
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
                    new RedisHold(client, this, null, hold), null, options.atMostOnce());
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

    /** What a handle knows of its call. */
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
        if (Threads.isVirtual()) {
            unlockParked();
        } else {
            call(nesting(), lock -> Core.hf_lock_release_as(lock, owner(true)));
            client.heard();
        }
    }

    private void unlockParked() {
        for (;;) {
            long hold = newest();
            try {
                client.start(number -> Core.hf_hold_release_start(hold, number)).join().check();
                return;
            } catch (LockNotHeldException e) {
                if (e instanceof LockLostException) {
                    throw e;
                }
                // Another thread of the same owner was faster: the next one.
            } finally {
                Core.hf_hold_close(hold);
            }
        }
    }

    /** The newest hold that {@link #unlock()} has to release; to be closed. */
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
        return getHoldCount() > 0 || client.held.newest(key(shares)) != null;
    }

    @Override
    public int getHoldCount() {
        return nesting == null
                ? 0
                : call(nesting, lock -> (int) Core.hf_lock_count_as(lock, owner(true)));
    }

    @Override
    public long fence() {
        if (getHoldCount() > 0) {
            long hold = newest();
            try {
                return Core.hf_hold_fence(hold);
            } finally {
                Core.hf_hold_close(hold);
            }
        }
        Hold hold = client.held.newest(key(shares));
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

    @Override
    public String getName() {
        return Bytes.text(name);
    }

    /** For people to read; sends nothing. */
    @Override
    public String toString() {
        return "RedisLock[" + getName() + (shares ? ", shared]" : "]");
    }

    /** Keeps this object reachable until the call ends, so that no cleaner closes the handle. */
    private <T> T call(Handle opened, LongFunction<T> function) {
        try {
            return opened.call(function);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private <T> T call(LongFunction<T> function) {
        return call(handle, function);
    }

    /** The owner that acquires and releases; null: the core derives it from the options. */
    private byte[] owner(boolean kept) {
        return !perThread ? null : kept ? client.threadOwner() : client.holdOwner();
    }

    /** Under which the caller's holds in hand are found. */
    private Held.Key key(boolean shared) {
        return Held.Key.of(name, owner == null ? client.threadOwner() : owner, shared);
    }

    /** Rounded up: never early. */
    private static long timeout(long nanos) {
        return nanos > FOREVER_NANOS - 1_000_000 ? Millis.ENDLESS : (nanos + 999_999) / 1_000_000;
    }
}
