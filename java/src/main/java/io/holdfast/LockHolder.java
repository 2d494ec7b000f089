package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.time.Duration;
import java.util.Optional;

/**
 * One holder of a lock, as the server saw it; see {@link LockInfo#holders()}.
 *
 * @param owner its owner as given
 * @param note its note, {@link LockOptions#note}; empty if it has none
 * @param shared whether others hold the lock beside it
 * @param fence its fence, for {@link HoldfastLock#forceUnlock(long)}
 * @param count the number of its holds, nested ones included
 * @param heldFor how long it has held the lock, by the server's clock
 * @param remaining the time until the last of its holds ends; {@link Hold#FOREVER} if it never
 *     expires
 * @param kept whether its work has ended, and it only keeps the lock for the remaining time: {@link
 *     Hold#keep}, {@link Hold#keepAtLeast}, {@link HoldfastClient#oncePer}. Its process may be gone
 * @param weight the number of permits that its shared holds take; 0 if it holds the lock
 *     exclusively
 */
public record LockHolder(
        byte[] owner,
        String note,
        boolean shared,
        long fence,
        long count,
        Duration heldFor,
        Duration remaining,
        boolean kept,
        long weight) {

    /**
     * The owner for people to read.
     *
     * @return its bytes as UTF-8, with a replacement character for invalid bytes
     */
    public String ownerText() {
        return Bytes.text(owner);
    }

    /**
     * The host, process and thread of the owner.
     *
     * @return where it is; empty if its program chose the owner
     */
    public Optional<Origin> origin() {
        return Origin.of(owner);
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "LockHolder[owner="
                + ownerText()
                + (note.isEmpty() ? "" : ", note=" + note)
                + (shared ? ", shared" : "")
                + (weight > count ? ", weight=" + weight : "")
                + (kept ? ", kept" : "")
                + ", fence="
                + fence
                + ", count="
                + count
                + ", heldFor="
                + heldFor
                + ", remaining="
                + (remaining.equals(Hold.FOREVER) ? "forever" : remaining)
                + "]";
    }
}
