package io.holdfast;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/**
 * One successful acquire, for a {@code try} statement to close. {@link RedisLock#acquire(Duration)}
 * makes it.
 *
 * <p>Any thread may use and release it. A hold that is dropped without {@link #close()} is not
 * released, because that could end a section that is still running. The {@link System.Logger}
 * {@code io.holdfast} gets a warning, and the hold is no longer renewed: it ends with its lease.
 */
public final class Hold implements AutoCloseable {
    /** The {@link #remaining()} of a hold that never expires: longer than any other. */
    public static final Duration FOREVER = Duration.ofMillis(Long.MAX_VALUE);

    private static final Executor EXECUTOR = new CompletableFuture<Void>().defaultExecutor();

    private final Handle handle;
    private final HoldfastClient client;
    private final RedisLock lock;
    private final long fence;
    private final long number;
    private final Queue<Consumer<? super Hold>> lossListeners = new ConcurrentLinkedQueue<>();
    /** The core's cause when the handle was given back. */
    private volatile int lastCause = Core.HF_CAUSE_NONE;

    Hold(HoldfastClient client, RedisLock lock, long pointer) {
        Handle handle = new Handle(pointer, Core::hf_hold_close);
        long fence = Core.hf_hold_fence(pointer);
        long number = Core.hf_hold_number(pointer);
        handle.whenDropped(
                this,
                () -> {
                    client.forget(number);
                    if (handle.close(Core::hf_hold_state) != Core.HF_STATE_RELEASED) {
                        Holdfast.LOG.log(
                                Level.WARNING,
                                describe(lock, fence)
                                        + " was dropped without close(); it ends with its lease");
                    }
                });
        this.handle = handle;
        this.client = client;
        this.lock = lock;
        this.fence = fence;
        this.number = number;
    }

    /**
     * The fencing token: greater than that of every earlier hold of this name, equal in nested
     * holds of one owner, below 2<sup>53</sup>. Give it to the resource and let the resource refuse
     * smaller ones: this protects when all else fails.
     *
     * @return a positive number, even after the hold has ended
     */
    public long fence() {
        return fence;
    }

    /**
     * How long the hold is certain to last, after a margin for clock drift. Sends nothing.
     *
     * @return {@link #FOREVER} if it never expires, zero if it is no longer held
     */
    public Duration remaining() {
        Long millis = handle.call(Core::hf_hold_remaining_ms);
        return millis == null ? Duration.ZERO : Millis.toDuration(millis);
    }

    /**
     * Whether the lock is held, as far as this process knows. Sends nothing; see {@link #check()}.
     *
     * @return false if it was released or lost
     */
    public boolean isValid() {
        Integer state = handle.call(Core::hf_hold_state);
        return state != null && state == Core.HF_STATE_HELD;
    }

    /**
     * Why the hold was lost. Sends nothing.
     *
     * @return the cause; empty if the hold was not lost, as far as this process knows
     */
    public Optional<LossCause> lossCause() {
        Integer cause = handle.call(Core::hf_hold_cause);
        return Optional.ofNullable(LossCause.of(cause == null ? lastCause : cause));
    }

    /**
     * Runs an action when the hold is lost: at the end of its lease at the latest, or, if its key
     * was taken away on the server, at its next renewal or check. The default executor of {@link
     * CompletableFuture} runs it once; at once if the hold is lost already, and never after a
     * release. If only {@link #release()} or {@link #close()} finds the loss, they throw instead.
     *
     * @param action takes this hold; its exceptions are logged
     */
    public void onLost(Consumer<? super Hold> action) {
        lossListeners.add(Objects.requireNonNull(action, "action"));
        if (lossCause().isEmpty() && !handle.isClosed()) {
            client.watch(number, this);
        }
        if (lossCause().isPresent()) {
            tellLoss(); // before anybody watched
        } else if (handle.isClosed()) {
            client.forget(number);
        }
    }

    /** The thread that takes a listener out runs it. */
    void tellLoss() {
        for (var action = lossListeners.poll(); action != null; action = lossListeners.poll()) {
            Consumer<? super Hold> listener = action;
            EXECUTOR.execute(
                    () -> {
                        try {
                            listener.accept(this);
                        } catch (RuntimeException e) {
                            Holdfast.LOG.log(Level.WARNING, "onLost() of " + this + " failed", e);
                        }
                    });
        }
    }

    /**
     * Asks the server whether the hold still stands. Changes nothing there.
     *
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    public void check() {
        request(Core::hf_hold_check);
    }

    /**
     * Makes the hold last its whole lease again, counted from now. Never shortens it.
     *
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost; it lasts at least as long as before
     * @throws HoldfastException if it was not renewed; it lasts as long as before
     * @throws ClosedException if the client is closed
     */
    public void renew() {
        request(Core::hf_hold_renew);
    }

    /**
     * Makes the hold last longer.
     *
     * @param duration how much longer: 10 milliseconds to 10 years, rounded up to milliseconds
     * @throws IllegalArgumentException if the duration is out of these bounds
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost; it lasts at least as long as before
     * @throws HoldfastException if it was not extended; it lasts as long as before
     * @throws ClosedException if the client is closed
     */
    public void extend(Duration duration) {
        long millis = Millis.positive(duration, "duration");
        request(hold -> Core.hf_hold_extend(hold, millis, 0));
    }

    /**
     * Releases the hold. With the owner's last hold, the lock becomes free or goes to the next
     * waiter.
     *
     * @throws LockNotHeldException if it was released before; nothing was changed
     * @throws LockLostException if it was lost before, and somebody else may have held the lock
     *     since
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     * @throws ClosedException if the client is closed
     */
    public void release() {
        if (handle.close(this::release) == null) {
            throw released();
        }
    }

    /**
     * Starts to release the hold. In this process it ends at once. Cancelling the future changes
     * nothing.
     *
     * @return completed when the server has answered; or the exceptions of {@link #release()}
     */
    public CompletableFuture<Void> releaseAsync() {
        Completions.Operation operation;
        try {
            operation = client.start(this::startRelease);
        } catch (LockNotHeldException | ClosedException e) {
            return CompletableFuture.failedFuture(e);
        }
        CompletableFuture<Void> released = new CompletableFuture<>();
        operation.thenAcceptAsync(
                outcome -> {
                    int status = outcome.status();
                    if (status == Core.HF_OK) {
                        released.complete(null);
                        return;
                    }
                    if (status == Core.HF_ELOST && lastCause == Core.HF_CAUSE_NONE) {
                        lastCause = Core.HF_CAUSE_GONE;
                    }
                    released.completeExceptionally(outcome.failure());
                });
        return released;
    }

    /**
     * Turns the hold into a token with which another process can go on holding the lock: {@link
     * RedisLock#adopt(byte[])}. Here the hold ends without being released. Nothing renews it, and
     * the other process must adopt it before its lease ends. Anybody with the token can release the
     * lock: keep it secret.
     *
     * @return the token
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if it was lost before
     * @throws ClosedException if the client is closed
     */
    public byte[] handOver() {
        byte[] token =
                handle.close(
                        hold -> {
                            lastCause = Core.hf_hold_cause(hold);
                            client.forget(number);
                            return Core.hf_hold_hand_over(hold);
                        });
        if (token == null) {
            throw released();
        }
        return token;
    }

    /**
     * Releases the hold unless it was released before. So a {@code try} block ends with a {@link
     * LockLostException} if the lock was lost meanwhile. If the block itself throws, that exception
     * goes on, with the loss {@linkplain Throwable#getSuppressed() suppressed} in it.
     *
     * @throws LockLostException if it was lost before, and somebody else may have held the lock
     *     since: you may have to undo the work under it
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     * @throws ClosedException if the client is closed
     */
    @Override
    public void close() {
        handle.close(this::release);
    }

    /** Releases a hold that no caller has seen or will see. */
    void abandon() {
        try {
            close();
        } catch (RuntimeException e) {
            Holdfast.LOG.log(Level.DEBUG, this + " was given up", e);
        }
    }

    private int release(long hold) {
        lastCause = Core.hf_hold_cause(hold);
        client.forget(number);
        try {
            return Core.hf_hold_release(hold);
        } catch (LockLostException e) {
            if (lastCause == Core.HF_CAUSE_NONE) {
                lastCause = Core.HF_CAUSE_GONE; // the server no longer has it
            }
            throw e;
        }
    }

    private void startRelease(long operation) {
        Integer begun =
                handle.close(
                        hold -> {
                            lastCause = Core.hf_hold_cause(hold);
                            client.forget(number);
                            return Core.hf_hold_release_start(hold, operation);
                        });
        if (begun == null) {
            throw released();
        }
    }

    /** For people to read. */
    @Override
    public String toString() {
        return describe(lock, fence);
    }

    private static String describe(RedisLock lock, long fence) {
        return "Hold[" + lock + ", fence " + fence + "]";
    }

    private void request(LongFunction<Integer> function) {
        if (handle.call(function) == null) {
            throw released();
        }
    }

    private LockNotHeldException released() {
        return new LockNotHeldException(this + " was released before");
    }
}
