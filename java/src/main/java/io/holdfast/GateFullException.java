package io.holdfast;

import java.time.Duration;

/** All passes of a {@link Gate} are spent. The caller has not passed, and nothing is left behind. */
public final class GateFullException extends LockTimeoutException {
    private static final long serialVersionUID = 1;

    /** How long until a pass may be free. */
    private final Duration retryAfter;

    /**
     * For tests and frameworks that replace a gate.
     *
     * @param message what went wrong
     * @param retryAfter how long until a pass may be free
     */
    public GateFullException(String message, Duration retryAfter) {
        super(message);
        this.retryAfter = retryAfter;
    }

    GateFullException(HoldfastLock lock, String message, Duration waited, Duration retryAfter) {
        super(message, lock.getName(), waited, () -> lock.inspect().holders());
        this.retryAfter = retryAfter;
    }

    /**
     * Returns how long until the next pass is free, if no other caller takes it.
     *
     * @return zero if a pass has become free meanwhile
     */
    public Duration retryAfter() {
        return retryAfter;
    }
}
