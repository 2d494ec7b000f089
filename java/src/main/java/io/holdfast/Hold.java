package io.holdfast;

import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

/**
 * One successful acquire, for a {@code try} statement to close. {@link
 * HoldfastLock#acquire(Duration)} makes it.
 *
 * <p>Any thread may use and release it. A hold that is dropped without {@link #close()} is not
 * released, because that could end a section that is still running. The {@link System.Logger}
 * {@code io.holdfast} gets a warning, and the hold is no longer renewed: it ends with its lease.
 */
public interface Hold extends AutoCloseable {
    /** The {@link #remaining()} of a hold that never expires: longer than any other. */
    Duration FOREVER = Millis.FOREVER;

    /**
     * The fence (a fencing token): greater than the fence of every earlier hold of this name, equal in
     * nested holds of one owner, below 2<sup>53</sup>. Give it to the resource and let the resource
     * refuse smaller fences: this protects when all else fails.
     *
     * @return a positive number, even after the hold has ended
     */
    long fence();

    /**
     * How long the hold is certain to last, after a margin for clock drift. Sends nothing.
     *
     * @return {@link #FOREVER} if it never expires, zero if it is no longer held
     */
    Duration remaining();

    /**
     * Whether the lock is held, as far as this process knows. Sends nothing; see {@link #check()}.
     *
     * @return false if it was released or lost
     */
    boolean isValid();

    /**
     * How many of the {@link #masters()} have the hold now. It stands while a majority of them has
     * it; the client asks the others again. Sends nothing.
     *
     * @return without a quorum 1 while it is held, else 0
     */
    int votes();

    /**
     * How many masters the client's URL names: 3 to 9 for {@code redis+quorum://}.
     *
     * @return 1 without a quorum
     */
    int masters();

    /**
     * Why the hold was lost. Sends nothing.
     *
     * @return the cause; empty if the hold was not lost, as far as this process knows
     */
    Optional<LossCause> lossCause();

    /**
     * Runs an action when the hold is lost: at the end of its lease at the latest, or, if its key
     * was taken away on the server, at its next renewal or check. The client's {@linkplain
     * ClientOptions#executor executor} runs it once; at once if the hold is lost already, and never
     * after a release. If only {@link #release()} or {@link #close()} finds the loss, they throw
     * instead.
     *
     * @param action takes this hold; its exceptions are logged
     */
    void onLost(Consumer<? super Hold> action);

    /**
     * Asks the server whether the hold still stands. Changes nothing there.
     *
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    void check();

    /**
     * Makes the hold last its whole lease again, counted from now, but not past {@link
     * LockOptions#maxHold}. Never shortens it.
     *
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost; it lasts at least as long as before
     * @throws HoldfastException if it was not renewed; it lasts as long as before
     * @throws ClosedException if the client is closed
     */
    void renew();

    /**
     * Makes the hold last longer, but not past {@link LockOptions#maxHold}.
     *
     * @param duration how much longer: 10 milliseconds to 10 years, rounded up to milliseconds
     * @throws IllegalArgumentException if the duration is out of these bounds
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if its lease ended, or its key was taken away
     * @throws LockUnknownException if the answer was lost; it lasts at least as long as before
     * @throws HoldfastException if it was not extended; it lasts as long as before
     * @throws ClosedException if the client is closed
     */
    void extend(Duration duration);

    /**
     * Leaves the lock held for that duration from now on: no other owner gets it, even if this process
     * dies, and afterwards it becomes free by itself. In this process the hold ends without a release:
     * it is not renewed, and cannot be released. Use this for work that must not be repeated too soon.
     * A named owner that acquires again may nest in it, unless its lock is not reentrant.
     *
     * @param duration how long: up to 10 years, rounded up to milliseconds; zero releases
     * @throws IllegalArgumentException if the duration is out of these bounds
     * @throws LockNotHeldException if it was released before; nothing was changed
     * @throws LockLostException if its lease ended, or its key was taken away; nothing is kept
     * @throws LockUnknownException if the answer was lost. It is still held, with this duration as
     *     its lease: keep it again, for as long or shorter, or release it
     * @throws HoldfastException if it was not kept; then too it is still held
     * @throws ClosedException if the client is closed
     */
    void keep(Duration duration);

    /**
     * Makes a release keep the lock for the rest of that duration, counted from the acquire: {@link
     * #release()}, {@link #releaseAsync()} and {@link #close()}, even when a block throws, leave
     * it held as {@link #keep(Duration)} does. If the process dies earlier, only its lease protects. A
     * release that fails ends the hold all the same: the lock is kept only if the server got the
     * request. If it must be kept even after an outage, call {@link #keep(Duration)} until that
     * succeeds, and then close. Sends nothing; a later call replaces this one.
     *
     * <pre>{@code
     * try (Hold hold = lock.acquire(Duration.ZERO)) {
     *     hold.keepAtLeast(Duration.ofMinutes(5));
     *     ...
     * }
     * }</pre>
     *
     * @param duration up to 10 years; zero: a release keeps nothing
     * @throws IllegalArgumentException if the duration is out of these bounds
     */
    void keepAtLeast(Duration duration);

    /**
     * Releases the hold. With the owner's last hold, the lock becomes free or goes to the next
     * waiter, unless it is {@linkplain #keepAtLeast kept}.
     *
     * @throws LockNotHeldException if it was released before; nothing was changed
     * @throws LockLostException if it was lost before, and another owner may have held the lock
     *     since
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     * @throws ClosedException if the client is closed
     */
    void release();

    /**
     * Starts to release the hold. In this process the hold ends at once. Cancelling the future changes
     * nothing.
     *
     * @return completed when the server has answered; or the exceptions of {@link #release()}
     */
    CompletableFuture<Void> releaseAsync();

    /**
     * Turns the hold into a token with which another process can take over the lock: {@link
     * HoldfastLock#adopt(byte[])}. In this process the hold ends without a release. It is no longer
     * renewed, so the other process must adopt it before its lease ends. Any process with the token can
     * release the lock: keep it secret. Right after a wait, this asks the server once.
     *
     * @return the token
     * @throws LockNotHeldException if it was released before
     * @throws LockLostException if it was lost before
     * @throws LockUnknownException if the answer was lost, or the answer to an earlier
     *     {@link #keep(Duration)}; it is held as before
     * @throws UnsupportedException if the client has several masters; it is held as before
     * @throws HoldfastException if the server could not be asked; it is held as before
     * @throws ClosedException if the client is closed
     */
    byte[] handOver();

    /**
     * Releases the hold unless it was released before. So a {@code try} block ends with a {@link
     * LockLostException} if the lock was lost meanwhile. If the block itself throws, that exception
     * goes on, with the loss {@linkplain Throwable#getSuppressed() suppressed} in it.
     *
     * @throws LockLostException if it was lost before, and another owner may have held the lock
     *     since: you may have to undo the work under it
     * @throws LockUnknownException if the answer was lost; it ends with its lease at the latest
     * @throws HoldfastException if it was not released; it ends with its lease
     * @throws ClosedException if the client is closed
     */
    @Override
    void close();
}
