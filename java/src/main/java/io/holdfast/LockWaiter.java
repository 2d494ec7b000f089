package io.holdfast;

import java.time.Duration;

/**
 * An acquire that waits in a lock's queue, as the server saw it; see {@link HoldfastLock#waiters()}.
 *
 * @param owner its owner as it was given; the end of a long one is cut off
 * @param waited how long it has waited
 * @param timeout its timeout, counted from when it queued; {@link Hold#FOREVER} if it waits without
 *     limit
 */
public record LockWaiter(byte[] owner, Duration waited, Duration timeout) {

    /**
     * The owner for people to read.
     *
     * @return its bytes as UTF-8, with a replacement character for invalid bytes
     */
    public String ownerText() {
        return Bytes.text(owner);
    }

    /** For people to read. */
    @Override
    public String toString() {
        return "LockWaiter[owner="
                + ownerText()
                + ", waited="
                + waited
                + ", timeout="
                + (timeout.equals(Hold.FOREVER) ? "forever" : timeout)
                + "]";
    }
}
