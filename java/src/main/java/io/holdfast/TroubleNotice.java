package io.holdfast;

import java.time.Duration;

/**
 * Holds of a client may soon be lost, or not any more; or another server has taken over. See {@link
 * ClientOptions#onTrouble}.
 *
 * @param kind what has happened
 * @param holds how many holds are at risk, or are at another server now; 0 if it is over
 * @param endsIn if at risk: how soon the first of them ends; otherwise null
 * @param message the same in words, and why
 */
public record TroubleNotice(Kind kind, long holds, Duration endsIn, String message) {
    /** What has happened. */
    public enum Kind {
        /** Renewals begin to fail. */
        AT_RISK,
        /** Renewals work again. */
        OVER,
        /**
         * Another server is asked from now on. Of several masters: a minority does not renew and the
         * others have the holds, or all renew again.
         */
        FAILOVER
    }
}
