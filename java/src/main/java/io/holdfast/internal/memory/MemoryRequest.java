package io.holdfast.internal.memory;

import io.holdfast.Hold;
import io.holdfast.LockOptions;
import io.holdfast.internal.core.LockSettings;
import java.time.Duration;

/**
 * One acquire, through a lock object, whose text is for messages. Equal owners are one owner. The caller
 * is the owner under which the hold is found again, or null. If kept, the hold is for unlock().
 */
record MemoryRequest(
        MemoryBook book,
        Object lock,
        LockOptions options,
        boolean shares,
        Object owner,
        Object caller,
        boolean kept,
        Duration lease,
        boolean renewed) {

    /** Returns the same request for another owner. */
    MemoryRequest of(Object other) {
        return new MemoryRequest(
                book, lock, options, shares, other, caller, kept, lease, renewed);
    }

    /** Returns the request with the lease of the stored rate, if it is for a pass of that rate. */
    MemoryRequest lasting(Duration per) {
        return !isStored()
                ? this
                : new MemoryRequest(
                        book, lock, options, shares, owner, caller, kept, per, renewed);
    }

    boolean isStored() {
        return LockSettings.of(options).isStored();
    }

    boolean nestsIn(MemoryRequest other) {
        return options.reentrant() && (kept || isNamed()) && owner.equals(other.owner);
    }

    /** Returns how many permits the request takes; 0 if it is exclusive. */
    long weight() {
        return shares ? options.weight() : 0;
    }

    /** Whether the caller chose the owner. */
    boolean isNamed() {
        return options.owner().isPresent();
    }

    /** Returns how long the hold lasts at most, if it is not extended. */
    Duration longest() {
        return renewed || lease.equals(Hold.FOREVER) ? options.maxHold() : lease;
    }
}
