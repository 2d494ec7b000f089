package io.holdfast;

/** How a call that is made once is counted, in {@link LockStats}. */
public enum CallOutcome {
    /** Its result is kept. */
    DONE,
    /** Its error is kept. */
    FAILED,
    /** It began, and it is unknown how it ended. */
    UNKNOWN,
    /** It was not made, and may be made by the next caller. */
    RETRY,
    /** It was made with other arguments, or in the other mode. */
    MISMATCH,
    /** Its result or error was not kept, or not at once: {@link ResultNotKeptException}. */
    UNKEPT
}
