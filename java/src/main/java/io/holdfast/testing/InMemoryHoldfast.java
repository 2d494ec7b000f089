package io.holdfast.testing;

import io.holdfast.HoldfastClient;
import io.holdfast.LossCause;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.memory.MemoryClient;
import io.holdfast.internal.memory.MemoryNames;

/**
 * Locks in the memory of this process, for unit tests without a server. The clients that it {@link
 * #connect() makes} exclude each other as if they were connected to one Redis: owners, reentrance,
 * the queue, timeouts, leases, fences and losses are the same. It has no failures of the
 * network, no other libraries' locks and no replicas, counts all names together and raises no
 * alarm.
 *
 * <pre>{@code
 * InMemoryHoldfast redis = new InMemoryHoldfast();
 * HoldfastClient client = redis.connect();
 * Hold hold = client.lock("stock").acquire();
 * redis.lose("stock", LossCause.GONE);
 * assertFalse(hold.isValid());
 * }</pre>
 */
public final class InMemoryHoldfast {
    private final MemoryNames names = new MemoryNames();

    /** Makes locks that are free. */
    public InMemoryHoldfast() {}

    /**
     * Makes a client; all clients of this object use the same locks.
     *
     * @return the client; close it at the end
     */
    public HoldfastClient connect() {
        return new MemoryClient(names);
    }

    /**
     * Takes a lock away from its holder, as a failover, an operator or the end of a lease can do.
     * The holds are lost at once, and the next waiter gets the lock.
     *
     * @param name the lock's name
     * @param cause why the holds are lost
     * @return whether it was held
     */
    public boolean lose(String name, LossCause cause) {
        return names.lose(Bytes.of(name), cause);
    }
}
