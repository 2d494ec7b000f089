package io.holdfast;

/** Why a hold was lost. */
public enum LossCause {
    /** Its lease ended, and its renewal is off; or its maxHold has passed. */
    EXPIRED,
    /** The client could not renew it before its lease ended. */
    UNREACHABLE,
    /** The server no longer has it: it was broken, deleted, evicted or flushed. */
    GONE
}
