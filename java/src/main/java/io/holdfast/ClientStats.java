package io.holdfast;

import java.time.Duration;

/**
 * A client's counts, since it was opened unless they say "now"; see {@link HoldfastClient#stats()}.
 *
 * @param held holds that may still be on the server, now
 * @param waiting acquires in a queue, now
 * @param acquired acquires that got the lock
 * @param waited acquires that got the lock after they waited in a queue
 * @param waitedTime the sum of these waits
 * @param refused acquires that did not get the lock: busy, timed out, or cancelled
 * @param unknown acquires whose answer was lost
 * @param released holds that a call released
 * @param lost holds that were lost before they were released
 * @param renewed renewals in the background, counting each time
 */
public record ClientStats(
        long held,
        long waiting,
        long acquired,
        long waited,
        Duration waitedTime,
        long refused,
        long unknown,
        long released,
        long lost,
        long renewed) {}
