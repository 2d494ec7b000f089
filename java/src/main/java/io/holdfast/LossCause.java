package io.holdfast;

/** Why a hold was lost. */
public enum LossCause {
    /** Its lease ended, and it was not, or no longer, to be renewed. */
    EXPIRED,
    /** It could not be renewed before its lease ended. */
    UNREACHABLE,
    /** The server does not know it any more: it was broken, deleted, evicted or flushed. */
    GONE;

    /** Null if it was not lost. */
    static LossCause of(int cause) {
        switch (cause) {
            case Core.HF_CAUSE_EXPIRED:
                return EXPIRED;
            case Core.HF_CAUSE_UNREACHABLE:
                return UNREACHABLE;
            case Core.HF_CAUSE_GONE:
                return GONE;
            default:
                return null;
        }
    }
}
