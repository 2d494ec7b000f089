package io.holdfast;

import java.time.Duration;

/**
 * What a lock looks like on the server; see {@link RedisLock#inspect()}.
 *
 * @param held whether somebody holds it, this library or another
 * @param foreign whether what holds it is not a lock of this library
 * @param owner the holder's owner as it was given; empty if it is free or foreign
 * @param count how many valid holds its owner has; 0 if it is free or foreign
 * @param fence the holder's fence; 0 if it is free or foreign
 * @param remaining until the last of its holds ends; {@link Hold#FOREVER} if it never expires, zero
 *     if it is free
 * @param waiters how many acquires stand in the queue
 */
public record LockInfo(
        boolean held,
        boolean foreign,
        byte[] owner,
        long count,
        long fence,
        Duration remaining,
        long waiters) {

    /**
     * The owner for people to read.
     *
     * @return its bytes as UTF-8, with a replacement character for those that are not
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
                + (foreign ? "" : ", fence=" + fence)
                + ", remaining="
                + (remaining.equals(Hold.FOREVER) ? "forever" : remaining)
                + ", waiters="
                + waiters
                + "]";
    }
}
