package io.holdfast.internal.redis;

import io.holdfast.ClosedException;
import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import io.holdfast.LossCause;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Handle;
import io.holdfast.internal.core.Log;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.Threads;
import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import java.util.function.LongBinaryOperator;
import java.util.function.LongFunction;
import java.util.function.LongToIntFunction;
import java.util.function.Supplier;

/** A hold on Redis. */
final class RedisHold implements Hold, Completions.Watcher {
    private final Handle handle;
    private final Session client;
    private final HoldfastLock lock;
    private final long fence;
    private final long number;
    private final int masters;
    private final WeakReference<Hold> self;
    /** Removes the hold from the client's record of the holds in hand. */
    private final Runnable forget;

    private final Queue<Runnable> lossActions = new ConcurrentLinkedQueue<>();
    /** The core's cause of loss when the handle was given back. */
    private volatile int lastCause = Core.HF_CAUSE_NONE;

    /** Makes a hold that its caller finds again by its key; null: no caller finds it. */
    static RedisHold of(Session client, HoldfastLock lock, Held.Key key, long pointer) {
        RedisHold hold = null;
        try {
            hold = new RedisHold(client, lock, key, pointer);
            if (key != null) {
                client.held.add(key, hold.self);
            }
            return hold;
        } catch (RuntimeException | Error e) {
            if (hold != null) {
                hold.releaseAsync();
            } else {
                client.abandon(pointer);
            }
            throw e;
        }
    }

    private RedisHold(Session client, HoldfastLock lock, Held.Key key, long pointer) {
        Handle handle = new Handle(pointer, Core::hf_hold_close);
        long fence = Core.hf_hold_fence(pointer);
        long number = Core.hf_hold_number(pointer);
        WeakReference<Hold> self = new WeakReference<>(this);
        Runnable forget =
                () -> {
                    client.forget(number);
                    if (key != null) {
                        client.held.remove(key, self);
                    }
                };
        this.handle = handle;
        this.client = client;
        this.lock = lock;
        this.fence = fence;
        this.number = number;
        this.masters = Core.hf_hold_votes(pointer)[1];
        this.forget = forget;
        this.self = self;
        handle.whenDropped( // last: if an earlier step fails, of() gives the pointer back
                this,
                () -> {
                    forget.run();
                    if (handle.close(Core::hf_hold_state) != Core.HF_STATE_RELEASED) {
                        Log.log(
                                Level.WARNING,
                                describe(lock, fence)
                                        + " was dropped without close(); it ends with its lease");
                    }
                });
    }

    @Override
    public long fence() {
        return fence;
    }

    @Override
    public Duration remaining() {
        Long millis = handle.call(Core::hf_hold_remaining_ms);
        return millis == null ? Duration.ZERO : Millis.toDuration(millis);
    }

    @Override
    public boolean isValid() {
        Integer state = handle.call(Core::hf_hold_state);
        return state != null && state == Core.HF_STATE_HELD;
    }

    @Override
    public int votes() {
        int[] votes = handle.call(Core::hf_hold_votes);
        return votes == null ? 0 : votes[0];
    }

    @Override
    public int masters() {
        return masters;
    }

    @Override
    public Optional<LossCause> lossCause() {
        Integer cause = handle.call(Core::hf_hold_cause);
        return Optional.ofNullable(Status.lossCause(cause == null ? lastCause : cause));
    }

    @Override
    public void onLost(Consumer<? super Hold> action) {
        Objects.requireNonNull(action, "action");
        lossActions.add(
                () -> {
                    try {
                        action.accept(this);
                    } catch (RuntimeException | Error e) { // the other actions must still run
                        Log.log(Level.WARNING, "onLost() of " + this + " failed", e);
                    }
                });
        if (lossCause().isEmpty() && !handle.isClosed()) {
            client.watch(number, this);
        }
        if (lossCause().isPresent()) {
            tellLoss(); // lost before it was watched
        } else if (handle.isClosed()) {
            client.forget(number);
        }
    }

    /** Starts each action once, on the thread that removed it from the queue. */
    @Override
    public void tellLoss() {
        for (var action = lossActions.poll(); action != null; action = lossActions.poll()) {
            client.actions.execute(action);
        }
    }

    @Override
    public void check() {
        request(Core::hf_hold_check, Core::hf_hold_check_start);
    }

    @Override
    public void renew() {
        request(Core::hf_hold_renew, Core::hf_hold_renew_start);
    }

    @Override
    public void extend(Duration duration) {
        long millis = Millis.positive(duration, "duration");
        request(
                hold -> Core.hf_hold_extend(hold, millis, 0),
                (hold, number) -> Core.hf_hold_extend_start(hold, millis, 0, number));
    }

    @Override
    public void keep(Duration duration) {
        if (duration.isZero()) {
            release();
            return;
        }
        long millis = Millis.positive(duration, "duration");
        request(
                hold -> Core.hf_hold_keep(hold, millis),
                (hold, number) -> Core.hf_hold_keep_start(hold, millis, number));
        handle.close(this::forgotten);
    }

    @Override
    public void keepAtLeast(Duration duration) {
        long millis = Millis.upToLongest(duration);
        handle.call(hold -> Core.hf_hold_keep_at_least(hold, millis)); // does nothing after a release
    }

    /** Asks the server on this thread, or starts the request and parks. */
    private void request(LongToIntFunction blocking, LongBinaryOperator start) {
        if (Threads.mayBlock()) {
            call(blocking::applyAsInt);
            return;
        }
        client.start(number -> call(hold -> start.applyAsLong(hold, number))).join().check();
    }

    private <T> void call(LongFunction<T> function) {
        handle.call(function, this::released);
    }

    @Override
    public void release() {
        if (!end()) {
            throw released();
        }
    }

    @Override
    public void close() {
        end();
    }

    /** Releases the hold; false: it was released before. */
    private boolean end() {
        if (Threads.mayBlock()) {
            return handle.close(this::releaseHere) != null;
        }
        if (handle.isClosed()) {
            return false;
        }
        Completions.Outcome outcome;
        try {
            outcome = client.start(this::startRelease).join();
        } catch (LockLostException e) {
            throw e;
        } catch (LockNotHeldException e) { // another thread was faster
            return false;
        } catch (ClosedException e) {
            handle.close();
            throw e;
        }
        seeLoss(outcome);
        outcome.check();
        return true;
    }

    private int releaseHere(long hold) {
        beforeEnd(hold);
        try {
            return Core.hf_hold_release(hold);
        } catch (LockLostException e) {
            seeGone();
            throw e;
        }
    }

    @Override
    public CompletableFuture<Void> releaseAsync() {
        return ending(() -> client.start(this::startRelease));
    }

    /** Releases the hold, and reports how a call ended. */
    void finish(int state, byte[] bytes, long ttlMillis) {
        Completions.Outcome outcome = startFinish(state, bytes, ttlMillis).join();
        seeLoss(outcome);
        outcome.check();
    }

    CompletableFuture<Void> finishAsync(int state, byte[] bytes, long ttlMillis) {
        return ending(() -> startFinish(state, bytes, ttlMillis));
    }

    private CompletableFuture<Void> ending(Supplier<Completions.Operation> start) {
        CompletableFuture<Void> released = new CompletableFuture<>();
        Completions.Operation operation;
        try {
            operation = start.get();
        } catch (LockNotHeldException | ClosedException | OutOfMemoryError e) {
            return CompletableFuture.failedFuture(e);
        }
        operation.thenAcceptAsync(
                outcome -> {
                    seeLoss(outcome);
                    if (outcome.status() == Core.HF_OK) {
                        released.complete(null);
                    } else {
                        released.completeExceptionally(outcome.failure());
                    }
                },
                client.actions);
        return released;
    }

    private void startRelease(long operation) {
        startEnd(hold -> Core.hf_hold_release_start(hold, operation));
    }

    /** Starts the report. Without memory for it, the hold is released, and no report is sent. */
    private Completions.Operation startFinish(int state, byte[] bytes, long ttlMillis) {
        try {
            return client.start(
                    number ->
                            startEnd(
                                    hold ->
                                            Core.hf_once_finish_start(
                                                    hold, state, bytes, ttlMillis, number)));
        } catch (OutOfMemoryError e) {
            handle.call(client::releaseUnawaited); // if this fails, the caller can still close it
            handle.close(this::forgotten);
            throw e;
        }
    }

    /** Starts to end the hold. Without memory it is as before, and can be released again. */
    private void startEnd(LongToIntFunction start) {
        boolean over = true;
        try {
            call(start::applyAsInt);
        } catch (OutOfMemoryError e) {
            over = false;
            throw e;
        } finally {
            if (over) {
                handle.close(this::forgotten);
            }
        }
    }

    private long forgotten(long hold) {
        beforeEnd(hold);
        return hold;
    }

    private void beforeEnd(long hold) {
        int cause = Core.hf_hold_cause(hold);
        if (cause != Core.HF_CAUSE_NONE) { // else its release may have found it gone
            lastCause = cause;
        }
        forget.run();
    }

    private void seeLoss(Completions.Outcome outcome) {
        if (outcome.status() == Core.HF_ELOST) {
            seeGone();
        }
    }

    /** Records that the server no longer has the hold. */
    private void seeGone() {
        if (lastCause == Core.HF_CAUSE_NONE) {
            lastCause = Core.HF_CAUSE_GONE;
        }
    }

    @Override
    public byte[] handOver() {
        byte[] token =
                Threads.blocking(() -> handle.call(Core::hf_hold_hand_over, this::released));
        handle.close(this::forgotten);
        return token;
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return describe(lock, fence);
    }

    private static String describe(HoldfastLock lock, long fence) {
        return "Hold[" + lock + ", fence " + fence + "]";
    }

    private LockNotHeldException released() {
        return new LockNotHeldException(this + " was released before");
    }
}
