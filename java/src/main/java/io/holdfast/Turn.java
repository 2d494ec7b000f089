package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * The result of {@link HoldfastLock#begin(OnceOptions) begin()}: the result of work that is done once,
 * or the turn to do it. A caller that has the turn must report how the work ended: {@link #finish
 * finish}, {@link #fail fail}, {@link #withdraw withdraw} or {@link #unknown unknown}. Releasing the
 * {@link #hold} reports nothing: the outcome of a call made {@linkplain OnceOptions#atMostOnce at most
 * once} is then unknown, and otherwise the next caller has the turn.
 */
public interface Turn {
    /**
     * The result that another caller left.
     *
     * @return its bytes; empty if it is this caller's turn
     */
    Optional<byte[]> result();

    /**
     * The hold under which to do the work, with its fence and its losses.
     *
     * @return the hold
     * @throws IllegalStateException if there is a result
     */
    Hold hold();

    /**
     * Reports how the call ended, and releases the hold; the methods below use this one.
     *
     * @param state {@code DONE}; {@code FAILED}; {@code UNKNOWN}; {@code RETRY}: the call was not
     *     made
     * @param bytes the result, the error, or for {@code UNKNOWN} the reason, at most 1024 bytes
     * @param ttl how long a result or an error is kept; otherwise zero
     * @return ends when the server has it; fails as {@link #finish} throws
     * @throws IllegalArgumentException if an argument is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    CompletableFuture<Void> endAsync(Outcome.State state, byte[] bytes, Duration ttl);

    /**
     * Calls {@link #endAsync}, and waits for it.
     *
     * @param state as there
     * @param bytes as there
     * @param ttl as there
     * @throws IllegalArgumentException if an argument is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    void end(Outcome.State state, byte[] bytes, Duration ttl);

    /**
     * Releases the hold, and leaves a result for all callers that wait, and for those that call
     * while it is kept. If the call is made at most once, the result is kept even if the hold was lost
     * before, unless the call has been settled.
     *
     * @param result at most 16 MiB
     * @param ttl how long it is kept; at least 10 seconds
     * @throws IllegalArgumentException if an argument is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     * @throws LockLostException if the hold was lost before; another caller may have its turn
     * @throws LockNotHeldException if it was released before
     * @throws OutcomeSettledException if the call was settled meanwhile: the result was not kept
     * @throws ServerException if the server did not keep it: the next caller has its turn, but not if
     *     the call is made at most once
     * @throws HoldfastException if the server could not be asked
     * @throws OutOfMemoryError if there is no memory for the report: the hold is released without it
     */
    default void finish(byte[] result, Duration ttl) {
        end(Outcome.State.DONE, result, ttl);
    }

    /**
     * {@link #finish} without a thread that waits.
     *
     * @param result at most 16 MiB
     * @param ttl how long it is kept; at least 10 seconds
     * @return ends when the server has it; fails as {@link #finish} throws
     * @throws IllegalArgumentException if an argument is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    default CompletableFuture<Void> finishAsync(byte[] result, Duration ttl) {
        return endAsync(Outcome.State.DONE, result, ttl);
    }

    /**
     * Releases the hold, and leaves an error, which all other callers get as a {@link KeptErrorException}.
     * Throws as {@link #finish} does.
     *
     * @param error the name of its class and its message are kept
     * @param ttl how long it is kept; at least 10 seconds
     */
    default void fail(Throwable error, Duration ttl) {
        end(Outcome.State.FAILED, KeptErrorException.encoded(error), ttl);
    }

    /**
     * Releases the hold of a call that may or may not have been made. Throws as {@link
     * #finish} does.
     *
     * @param why for the person who settles the call; cut to 1024 bytes
     */
    default void unknown(String why) {
        end(Outcome.State.UNKNOWN, OnceOptions.shortened(why), Duration.ZERO);
    }

    /**
     * Releases the hold of a call that was not made and will not be: the next caller has the turn.
     * Throws as {@link #finish} does, but not if the call was settled or forgotten meanwhile.
     */
    default void withdraw() {
        end(Outcome.State.RETRY, new byte[0], Duration.ZERO);
    }
}
