package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.time.Instant;
import java.util.Objects;
import java.util.Optional;

/**
 * The server's record of a call that is made once; see {@link HoldfastLock#onceResult()}. Any
 * thread may use it. The methods that settle the call do so only if the record is still of the
 * same call. They throw a {@link LockNotHeldException} if there is no such record any more, an
 * {@link OutcomeSettledException} if the call is done or settled already, a {@link
 * LockTimeoutException} if the call is in progress, and a {@link HoldfastException} if the server
 * could not be asked. Then nothing is changed.
 */
public final class Outcome {
    /** The states of a call. */
    public enum State {
        /** It has begun, and its caller holds the lock. */
        RUNNING,
        /** It has begun, and its caller no longer holds the lock: it is unknown how it ended. */
        UNKNOWN,
        /** It may be made again. */
        RETRY,
        /** It is done, and its result is kept. */
        DONE,
        /** It failed, and its error is kept. */
        FAILED
    }

    /** Settles a call on the server. */
    @FunctionalInterface
    public interface Settler {
        /**
         * Settles the call.
         *
         * @param state {@code DONE}, {@code FAILED} or {@code RETRY}; null: forget the call
         * @param fence the record's fence
         * @param force also while the call is in progress; and replace a result or an error
         * @param bytes the result or the error; otherwise empty
         * @param ttl how long they are kept; otherwise zero
         */
        void settle(State state, long fence, boolean force, byte[] bytes, Duration ttl);
    }

    private final State state;
    private final boolean atMostOnce;
    private final long fence;
    private final byte[] owner;
    private final Instant since;
    private final Duration ttl;
    private final byte[] note;
    private final byte[] bytes;
    private final Settler settler;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param state the state of the call
     * @param atMostOnce whether it is made at most once
     * @param fence the fence of the hold that made it
     * @param owner the owner of that hold, or of the caller that settled the call
     * @param since when it reached this state
     * @param ttl how long the record is kept
     * @param note the caller's note
     * @param bytes the result or the error; null if there is none
     * @param settler settles the call
     */
    public Outcome(
            State state,
            boolean atMostOnce,
            long fence,
            byte[] owner,
            Instant since,
            Duration ttl,
            byte[] note,
            byte[] bytes,
            Settler settler) {
        this.state = Objects.requireNonNull(state, "state");
        this.atMostOnce = atMostOnce;
        this.fence = fence;
        this.owner = owner;
        this.since = since;
        this.ttl = ttl;
        this.note = note;
        this.bytes = bytes;
        this.settler = settler;
    }

    /**
     * The state of the call.
     *
     * @return its state when the server was asked
     */
    public State state() {
        return state;
    }

    /**
     * Whether the call is made at most once.
     *
     * @return the mode that its caller chose
     */
    public boolean atMostOnce() {
        return atMostOnce;
    }

    /**
     * The fence of the hold that made the call.
     *
     * @return a positive number
     */
    public long fence() {
        return fence;
    }

    /**
     * The owner of that hold, or of the caller that settled the call, for people to read.
     *
     * @return text
     */
    public String owner() {
        return Bytes.text(owner);
    }

    /**
     * When the call reached this state, by the server's clock.
     *
     * @return the time
     */
    public Instant since() {
        return since;
    }

    /**
     * How long the record is kept.
     *
     * @return {@link Hold#FOREVER}: until the call is settled
     */
    public Duration ttl() {
        return ttl;
    }

    /**
     * The note that its caller gave, or left at the end.
     *
     * @return text, maybe empty
     */
    public String note() {
        return Bytes.text(note);
    }

    /**
     * The result of a call that is done.
     *
     * @return its bytes; empty in any other state
     */
    public Optional<byte[]> result() {
        return state == State.DONE ? Optional.of(bytes.clone()) : Optional.empty();
    }

    /**
     * The error of a call that failed.
     *
     * @return the exception that its callers get; empty in any other state
     */
    public Optional<KeptErrorException> error() {
        return state == State.FAILED
                ? Optional.of(KeptErrorException.decoded(bytes))
                : Optional.empty();
    }

    /**
     * Records that the call was made, and keeps its result for all callers.
     *
     * @param result its bytes, as the callers' codec makes them; at most 16 MiB
     * @param ttl how long it is kept, 10 seconds to 10 years
     * @throws IllegalArgumentException if either is out of bounds
     */
    public void resolve(byte[] result, Duration ttl) {
        Millis.ttl(ttl);
        settler.settle(State.DONE, fence, false, Objects.requireNonNull(result, "result"), ttl);
    }

    /**
     * Records that the call failed, and keeps its error for all callers.
     *
     * @param error the error
     * @param ttl how long it is kept, 10 seconds to 10 years
     * @throws IllegalArgumentException if the ttl is out of bounds
     */
    public void resolveError(Throwable error, Duration ttl) {
        Millis.ttl(ttl);
        settler.settle(State.FAILED, fence, false, KeptErrorException.encoded(error), ttl);
    }

    /**
     * Lets the next caller make the call again. If the result of the first
     * call arrives earlier, it is kept.
     */
    public void retry() {
        settler.settle(State.RETRY, fence, false, new byte[0], Duration.ZERO);
    }

    /** Forgets all about the call, including its result: the next caller makes it. */
    public void forget() {
        forget(false);
    }

    /**
     * Forgets all about the call.
     *
     * @param force also if it is in progress: its hold ends
     */
    public void forget(boolean force) {
        settler.settle(null, fence, force, new byte[0], Duration.ZERO);
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "Outcome["
                + state.name().toLowerCase(java.util.Locale.ROOT)
                + ", fence="
                + fence
                + ", owner="
                + owner()
                + ", since="
                + since
                + (note.length > 0 ? ", note=" + note() : "")
                + "]";
    }
}
