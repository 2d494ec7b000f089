package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The call was made, but its result could not be kept for others: this exception has it. No caller
 * calls again if the call is made at most once.
 */
public final class ResultNotKeptException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** Why a result was not kept. */
    public enum Reason {
        /** The call was settled meanwhile, or the record belongs to another caller. */
        SETTLED,
        /**
         * The server did not answer, and the client goes on trying until it is closed; or the cause is
         * an {@link OutOfMemoryError}: then call {@link #resolve} later.
         */
        UNREACHABLE,
        /**
         * The server's memory is full, or the user lacks a permission. The client goes on trying if
         * the call is made at most once.
         */
        SERVER,
        /** The client no longer held the lock. */
        LOST,
        /** The result is too long, or the codec failed. */
        ENCODING
    }

    /** The call's result. */
    private final transient Object result;

    /** Why the result was not kept. */
    private final Reason reason;

    /** The lock for which the call was made. */
    private final String lock;
    /** Reads the record of the call. */
    private final transient Supplier<Optional<Outcome>> look;
    /** The fence of the hold that made the call. */
    private final long fence;

    ResultNotKeptException(
            String lock,
            Supplier<Optional<Outcome>> look,
            long fence,
            Object result,
            Reason reason,
            Throwable cause) {
        super(
                "the call of "
                        + lock
                        + " was made, but its result, which this exception has, was not kept: "
                        + said(cause, Throwable::getMessage));
        initCause(cause);
        this.lock = lock;
        this.look = look;
        this.fence = fence;
        this.result = result;
        this.reason = reason;
    }

    /** Returns a text of the user's error, or its class, if its own method throws. */
    static String said(Throwable error, Function<Throwable, String> method) {
        try {
            return String.valueOf(method.apply(error));
        } catch (Throwable e) {
            return error.getClass().getName();
        }
    }

    /**
     * The call's result.
     *
     * @param <T> the type of the result
     * @return the result; null if this exception came from another process
     */
    @SuppressWarnings("unchecked")
    public <T> T result() {
        return (T) result;
    }

    /**
     * Why the result was not kept. The cause of this exception has more.
     *
     * @return the reason
     */
    public Reason reason() {
        return reason;
    }

    /**
     * Keeps another result for all callers, for example a shorter one: {@link
     * Outcome#resolve}.
     *
     * @param other its bytes, as the callers' codec makes them; at most 16 MiB
     * @param ttl how long it is kept, 10 seconds to 10 years
     * @throws OutcomeSettledException if the call is done or settled already
     * @throws IllegalArgumentException if an argument is out of bounds
     * @throws IllegalStateException if this exception came from another process
     * @throws HoldfastException if the server could not be asked
     */
    public void resolve(byte[] other, Duration ttl) {
        if (look == null) {
            throw new IllegalStateException(
                    "this exception came from another process: HoldfastLock.onceResult() gives an"
                            + " outcome to settle");
        }
        look.get()
                .filter(outcome -> outcome.fence() == fence)
                .orElseThrow(
                        () ->
                                new OutcomeSettledException(
                                        "the call of " + lock + " has been settled already"))
                .resolve(other, ttl);
    }
}
