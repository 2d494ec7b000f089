package io.holdfast;

import java.util.Optional;

/**
 * The hold was lost before: its lease ended, or its key was taken away. Another owner may have held
 * the lock since; only the {@linkplain Hold#fence() fence} protected the resource then.
 */
public final class LockLostException extends LockNotHeldException {
    private static final long serialVersionUID = 1;

    /** Why the hold was lost, or null. */
    private final LossCause cause;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public LockLostException(String message) {
        this(message, null);
    }

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     * @param cause why the hold was lost; null if unknown
     */
    public LockLostException(String message, LossCause cause) {
        super(message);
        this.cause = cause;
    }

    /**
     * Why the hold was lost.
     *
     * @return empty if unknown
     */
    public Optional<LossCause> lossCause() {
        return Optional.ofNullable(cause);
    }
}
