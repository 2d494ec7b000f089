package io.holdfast;

/** Why an acquire did not get the lock, although the server answered. */
public enum RefusalCause {
    /** It tried once, and others held the lock. */
    BUSY,
    /** Others kept the lock until its time was up. */
    TIMEOUT,
    /** It was cancelled or interrupted, or the client was closed. */
    CANCELLED,
    /** It would have waited for itself. */
    DEADLOCK,
    /** Too few replicas had it in time. */
    REPLICAS
}
