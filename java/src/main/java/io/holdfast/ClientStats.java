package io.holdfast;

import java.time.Duration;

/**
 * What a client has done since it was opened, and does now; see {@link HoldfastClient#stats()}.
 *
 * @param held holds that may still be on the server, now
 * @param waiting acquires in a queue, now
 * @param acquired acquires that got the lock
 * @param waited those of them that waited in a queue
 * @param waitedTime how long the latter waited, all together
 * @param refused acquires that did not get it: busy, timed out, or cancelled
 * @param unknown acquires whose answer was lost
 * @param released holds that were released by a call
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
