package io.holdfast;

import java.time.Duration;

/**
 * Holds of a client may soon be lost, or are safe again; or another server has taken over. See {@link
 * ClientOptions#onTrouble}.
 *
 * @param kind what has happened
 * @param holds the number of holds that are at risk, or that are at another server now; 0 if it is over
 * @param endsIn if at risk: the time until the first of them ends; otherwise null
 * @param message the notice in words, with the reason
 */
public record TroubleNotice(Kind kind, long holds, Duration endsIn, String message) {
    /** What has happened. */
    public enum Kind {
        /** Renewals begin to fail. */
        AT_RISK,
        /** Renewals work again. */
        OVER,
        /**
         * Another server is asked from now on. With several masters: a minority does not renew, and the
         * other masters have the holds, or all renew again.
         */
        FAILOVER
    }
}
