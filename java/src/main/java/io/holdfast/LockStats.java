package io.holdfast;

import java.util.Map;

/**
 * Counts of a client's locks, since it was opened unless marked "now"; see {@link ClientStats}.
 * Each acquire is counted once, when it ends: as acquired, answered, refused or failed.
 *
 * @param held holds that may still be on the server, now
 * @param waiting acquires in a queue, now
 * @param acquired acquires that got the lock
 * @param queued acquires that got the lock after they had a place in its queue
 * @param answered acquires of {@code once()} that got the outcome of another call, by outcome:
 *     DONE, FAILED, UNKNOWN or MISMATCH
 * @param refused acquires that did not get the lock, by cause
 * @param failed acquires that failed without learning the state of the lock, by cause
 * @param released holds that a call released
 * @param kept holds that keep the lock after their work: {@link Hold#keep}, or a release before the
 *     time of {@link Hold#keepAtLeast}
 * @param begun calls made at most once whose record was written
 * @param finished calls made for {@code once()} that ended, by outcome: DONE, FAILED,
 *     UNKNOWN, RETRY or UNKEPT
 * @param lost holds that were lost before they were released, by cause
 * @param renewed renewals in the background
 * @param alarms how often the alarm was raised
 * @param waits how long acquires that got the lock waited for it, including the request
 * @param holds how long locks were held, until a call ended the hold or it was lost
 */
public record LockStats(
        long held,
        long waiting,
        long acquired,
        long queued,
        Map<CallOutcome, Long> answered,
        Map<RefusalCause, Long> refused,
        Map<FailureCause, Long> failed,
        long released,
        long kept,
        long begun,
        Map<CallOutcome, Long> finished,
        Map<LossCause, Long> lost,
        long renewed,
        long alarms,
        Histogram waits,
        Histogram holds) {}
