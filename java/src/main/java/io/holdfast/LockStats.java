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
 * @param answered acquires of {@code once()} that got the outcome of another call, by every outcome:
 *     DONE, FAILED, UNKNOWN or MISMATCH
 * @param refused acquires that did not get the lock, by every cause
 * @param failed acquires that failed without learning the state of the lock, by every cause
 * @param released holds that a call released
 * @param kept holds that keep the lock after their work: {@link Hold#keep}, or a release before the
 *     time of {@link Hold#keepAtLeast}
 * @param begun calls that were made at most once, and whose record was written
 * @param finished calls made for {@code once()} that ended, by every outcome: DONE, FAILED,
 *     UNKNOWN, RETRY or UNKEPT
 * @param lost holds that were lost before they were released, by every cause
 * @param renewed renewals in the background, counting each time
 * @param alarms how often the alarm was raised
 * @param waits for how long acquires that got the lock had waited for it, the request included
 * @param holds for how long locks were held, until a call ended the hold or it was lost
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
