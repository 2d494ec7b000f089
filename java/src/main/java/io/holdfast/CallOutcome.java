package io.holdfast;

/** The outcomes by which a call that is made once is counted, in {@link LockStats}. */
public enum CallOutcome {
    /** Its result is kept. */
    DONE,
    /** Its error is kept. */
    FAILED,
    /** The call began, and it is unknown how it ended. */
    UNKNOWN,
    /** The call was not made, and the next caller may make it. */
    RETRY,
    /** The call was made with other arguments, or in the other mode. */
    MISMATCH,
    /** Its result or error was not kept, or not at once: {@link ResultNotKeptException}. */
    UNKEPT
}
