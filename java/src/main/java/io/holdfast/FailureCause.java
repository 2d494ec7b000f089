package io.holdfast;

/** Why an acquire failed without learning the state of the lock. */
public enum FailureCause {
    /** The server was not reached. */
    UNREACHABLE,
    /** The answer was lost: a {@link LockUnknownException}. */
    UNKNOWN,
    /** Any other error. */
    ERROR
}
