package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.time.Duration;
import java.util.Optional;

/**
 * An acquire that waits in a lock's queue, as the server saw it; see {@link LockInfo#queue()}.
 *
 * @param owner its owner as given
 * @param note its note, {@link LockOptions#note}; empty if it has none
 * @param shared whether it asks for a shared hold
 * @param permits of a shared waiter: it enters once at most this number hold the lock;
 *     0: no limit
 * @param waited how long it has waited, including its head start
 * @param timeout its timeout, including its head start; {@link Hold#FOREVER} if it waits without
 *     limit
 * @param weight the number of permits that it takes; 0 if it is not shared
 */
public record LockWaiter(
        byte[] owner,
        String note,
        boolean shared,
        long permits,
        Duration waited,
        Duration timeout,
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
        return "LockWaiter[owner="
                + ownerText()
                + (note.isEmpty() ? "" : ", note=" + note)
                + (shared ? ", shared" : "")
                + (weight > 1 ? ", weight=" + weight : "")
                + ", waited="
                + waited
                + ", timeout="
                + (timeout.equals(Hold.FOREVER) ? "forever" : timeout)
                + "]";
    }
}
