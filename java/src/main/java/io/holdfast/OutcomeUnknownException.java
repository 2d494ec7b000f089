package io.holdfast;

import java.time.Duration;
import java.time.Instant;

/**
 * The call began, and no server knows how it ended: its caller died, lost its hold, or failed. Do not
 * call. Find out what became of the call, for example from the vendor, and settle it.
 */
public final class OutcomeUnknownException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** The record of the call. */
    private final transient Outcome outcome;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what is not known
     * @param outcome the record of the call
     */
    public OutcomeUnknownException(String message, Outcome outcome) {
        super(message);
        this.outcome = outcome;
    }

    /**
     * Returns the record of the call.
     *
     * @return the record
     * @throws IllegalStateException if this exception came from another process
     */
    public Outcome outcome() {
        if (outcome == null) {
            throw new IllegalStateException(
                    "this exception came from another process: HoldfastLock.onceResult() gives an"
                            + " outcome to settle");
        }
        return outcome;
    }

    /**
     * The fence of the hold that made the call.
     *
     * @return a positive number
     */
    public long fence() {
        return outcome().fence();
    }

    /**
     * The owner of that hold.
     *
     * @return text
     */
    public String owner() {
        return outcome().owner();
    }

    /**
     * When the call began, by the server's clock.
     *
     * @return the time
     */
    public Instant since() {
        return outcome().since();
    }

    /**
     * The note that its caller gave, or left at the end.
     *
     * @return text, maybe empty
     */
    public String note() {
        return outcome().note();
    }

    /**
     * Records that the call was made, and keeps its result: {@link Outcome#resolve}.
     *
     * @param result its bytes
     * @param ttl how long it is kept, 10 seconds to 10 years
     */
    public void resolve(byte[] result, Duration ttl) {
        outcome().resolve(result, ttl);
    }

    /** Lets the next caller make the call again: {@link Outcome#retry}. */
    public void retry() {
        outcome().retry();
    }

    /** Forgets all about the call: {@link Outcome#forget()}. */
    public void forget() {
        outcome().forget();
    }
}
