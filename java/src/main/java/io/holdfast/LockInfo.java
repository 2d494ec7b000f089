package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * A lock as the server saw it; see {@link HoldfastLock#inspect()} and {@link HoldfastClient#locks}.
 *
 * @param name its name as given
 * @param held whether it is held, through this library or another
 * @param foreign whether another library's lock holds it
 * @param shared whether it is held shared
 * @param count the number of valid holds, nested ones included; 0 if it is free or foreign
 * @param waiters the number of acquires in the queue
 * @param remaining the time until its last hold ends; {@link Hold#FOREVER} if it never expires,
 *     zero if it is free
 * @param result how long its last result is kept; zero if it has none
 * @param moving whether its slot of a cluster is moving: then the waiters and the result are
 *     unknown
 * @param limit the limit that {@link HoldfastClient#limit(String, long)} has stored; empty: no
 *     limit
 * @param holders the holders, in the order in which they end; of 100 holds at most
 * @param queue the waiting acquires, in the order in which they will be served; 100 at most
 */
public record LockInfo(
        byte[] name,
        boolean held,
        boolean foreign,
        boolean shared,
        long count,
        long waiters,
        Duration remaining,
        Duration result,
        boolean moving,
        Optional<LockLimit> limit,
        List<LockHolder> holders,
        List<LockWaiter> queue) {

    /**
     * The name for people to read.
     *
     * @return its bytes as UTF-8, with a replacement character for invalid bytes
     */
    public String nameText() {
        return Bytes.text(name);
    }

    /**
     * The owner of the first holder.
     *
     * @return its bytes; empty if the lock is free or foreign
     */
    public byte[] owner() {
        return holders.isEmpty() ? new byte[0] : holders.get(0).owner();
    }

    /**
     * The owner for people to read.
     *
     * @return its bytes as UTF-8, with a replacement character for invalid bytes
     */
    public String ownerText() {
        return Bytes.text(owner());
    }

    /**
     * The fence of the first holder.
     *
     * @return 0 if the lock is free or foreign
     */
    public long fence() {
        return holders.isEmpty() ? 0 : holders.get(0).fence();
    }

    /**
     * Whether the first holder only keeps the lock: {@link LockHolder#kept()}.
     *
     * @return false if the lock is free or foreign
     */
    public boolean kept() {
        return !holders.isEmpty() && holders.get(0).kept();
    }

    /**
     * How long the first holder has held the lock, by the server's clock.
     *
     * @return zero if the lock is free or foreign
     */
    public Duration heldFor() {
        return holders.isEmpty() ? Duration.ZERO : holders.get(0).heldFor();
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        String start = "LockInfo[name=" + nameText();
        String end = ", waiters=" + waiters + "]";
        if (!held) {
            return start + ", free" + end;
        }
        return start
                + (foreign ? ", foreign" : ", holders=" + holders)
                + ", remaining="
                + (remaining.equals(Hold.FOREVER) ? "forever" : remaining)
                + end;
    }
}
