package io.holdfast;

import java.time.Duration;

/**
 * A lock as the server sees it; see {@link HoldfastLock#inspect()}.
 *
 * @param held whether somebody holds it, through this library or another
 * @param foreign whether another library's lock holds it
 * @param owner the holder's owner as it was given; empty if it is free or foreign
 * @param count the owner's valid holds; 0 if it is free or foreign
 * @param fence the holder's fence; 0 if it is free or foreign
 * @param heldFor how long its owner has held it, by the server's clock; zero if it is free or
 *     foreign
 * @param remaining the time until its last hold ends; {@link Hold#FOREVER} if it never expires,
 *     zero if it is free
 * @param waiters the number of acquires in the queue
 */
public record LockInfo(
        boolean held,
        boolean foreign,
        byte[] owner,
        long count,
        long fence,
        Duration heldFor,
        Duration remaining,
        long waiters) {

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
        if (!held) {
            return "LockInfo[free, waiters=" + waiters + "]";
        }
        return "LockInfo["
                + (foreign ? "foreign" : "owner=" + ownerText() + ", count=" + count)
                + (foreign ? "" : ", fence=" + fence + ", heldFor=" + heldFor)
                + ", remaining="
                + (remaining.equals(Hold.FOREVER) ? "forever" : remaining)
                + ", waiters="
                + waiters
                + "]";
    }
}
