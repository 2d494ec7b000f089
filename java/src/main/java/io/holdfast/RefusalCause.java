package io.holdfast;

/** Why an acquire did not get the lock, although the server answered. */
public enum RefusalCause {
    /** It tried once, and other owners held the lock. */
    BUSY,
    /** Other owners kept the lock until its timeout. */
    TIMEOUT,
    /** It was cancelled or interrupted, or the client was closed. */
    CANCELLED,
    /** It would have waited for itself. */
    DEADLOCK,
    /** Too few replicas had the lock in time. */
    REPLICAS
}
