package io.holdfast.testing;

import io.holdfast.Hold;
import io.holdfast.LockOptions;
import java.time.Duration;

/**
 * One acquire. Equal owners are one owner; the caller is the owner under which the hold is found
 * again, or null; what is kept is for unlock().
 */
record MemoryRequest(
        MemoryClient client,
        MemoryLock lock,
        Object owner,
        Object caller,
        boolean kept,
        Duration lease,
        boolean renewed) {

    boolean nestsIn(MemoryRequest other) {
        return lock.options.reentrant() && owner.equals(other.owner);
    }

    /** Its owner is not the client's own. */
    boolean isNamed() {
        return lock.options.owner().isPresent();
    }

    /** How long it is held at most, if nobody extends it. */
    Duration longest() {
        LockOptions options = lock.options;
        if (lease.equals(Hold.FOREVER) || !renewed) {
            return lease;
        }
        return options.maxHold().equals(Hold.FOREVER)
                ? Hold.FOREVER
                : options.maxHold().plus(lease);
    }
}
