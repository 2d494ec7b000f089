package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * What {@link HoldfastLock#begin(OnceOptions) begin()} gives: the result of what is done once, or
 * the turn to do it. A caller that has the turn must report how it ended: {@link #finish finish},
 * {@link #fail fail}, {@link #withdraw withdraw} or {@link #unknown unknown}. To release the {@link
 * #hold} says nothing: if the call is made {@linkplain OnceOptions#atMostOnce at most once}, its outcome is
 * unknown then, and else the next caller has the turn.
 */
public interface Turn {
    /**
     * The result that another left.
     *
     * @return its bytes; empty if it is this caller's turn
     */
    Optional<byte[]> result();

    /**
     * The hold under which to do it, with its fence and its losses.
     *
     * @return the hold
     * @throws IllegalStateException if there is a result
     */
    Hold hold();

    /**
     * Says how the call ended, and releases the hold; the methods below are this one.
     *
     * @param state {@code DONE}; {@code FAILED}; {@code UNKNOWN}; {@code RETRY}: the call was not
     *     made
     * @param bytes the result, the error, or for {@code UNKNOWN} why, at most 1024 bytes
     * @param ttl for how long a result or an error stays; else zero
     * @return ends when the server has it; fails as {@link #finish} throws
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    CompletableFuture<Void> endAsync(Outcome.State state, byte[] bytes, Duration ttl);

    /**
     * {@link #endAsync}, and waits for it.
     *
     * @param state as there
     * @param bytes as there
     * @param ttl as there
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    void end(Outcome.State state, byte[] bytes, Duration ttl);

    /**
     * Releases the hold, and leaves a result for all callers that wait, and for those that call
     * while it stays. If the call is made at most once, the result is kept even if the hold was lost
     * before, unless the call has been settled.
     *
     * @param result at most 16 MiB
     * @param ttl for how long it stays; at least 10 seconds
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     * @throws LockLostException if the hold was lost before; another may have its turn
     * @throws LockNotHeldException if it was released before
     * @throws OutcomeSettledException if the call was settled meanwhile: the result was not kept
     * @throws ServerException if the server did not keep it: the next one has its turn, but not if
     *     the call is made at most once
     * @throws HoldfastException if the server could not be asked
     */
    default void finish(byte[] result, Duration ttl) {
        end(Outcome.State.DONE, result, ttl);
    }

    /**
     * {@link #finish} without a thread that waits.
     *
     * @param result at most 16 MiB
     * @param ttl for how long it stays; at least 10 seconds
     * @return ends when the server has it; fails as {@link #finish} throws
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    default CompletableFuture<Void> finishAsync(byte[] result, Duration ttl) {
        return endAsync(Outcome.State.DONE, result, ttl);
    }

    /**
     * Releases the hold, and leaves an error, which all others get as a {@link KeptErrorException}.
     * Throws as {@link #finish} does.
     *
     * @param error its class's name and its message are kept
     * @param ttl for how long it stays; at least 10 seconds
     */
    default void fail(Throwable error, Duration ttl) {
        end(Outcome.State.FAILED, KeptErrorException.encoded(error), ttl);
    }

    /**
     * Releases the hold of a call of which it is unknown whether it was made. Throws as {@link
     * #finish} does.
     *
     * @param why for the person who settles the call; what exceeds 1024 bytes is cut off
     */
    default void unknown(String why) {
        end(Outcome.State.UNKNOWN, OnceOptions.shortened(why), Duration.ZERO);
    }

    /**
     * Releases the hold of a call that was not made and will not be: the next caller has the turn.
     * Throws as {@link #finish} does.
     */
    default void withdraw() {
        end(Outcome.State.RETRY, new byte[0], Duration.ZERO);
    }
}
