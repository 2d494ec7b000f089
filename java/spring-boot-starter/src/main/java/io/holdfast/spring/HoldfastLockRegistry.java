package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.util.Objects;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Spring Integration's locks, on Redis: for aggregators and resequencers on several hosts, and
 * leaders. A lock is a {@link HoldfastLock}, reentrant for its thread and without conditions.
 */
public final class HoldfastLockRegistry implements LockRegistry {
    private final HoldfastClient client;
    private final LockOptions options;
    private final String prefix;

    /**
     * A registry.
     *
     * @param client makes the locks
     * @param options what they have
     * @param prefix what stands before each key in the lock's name
     */
    public HoldfastLockRegistry(HoldfastClient client, LockOptions options, String prefix) {
        this.client = Objects.requireNonNull(client, "client");
        this.options = Objects.requireNonNull(options, "options");
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    /**
     * The lock of a key.
     *
     * @param key its {@code toString()} is the end of the lock's name
     * @return the lock; all of one key are one lock
     * @throws IllegalArgumentException if no lock may have that name
     */
    @Override
    public HoldfastLock obtain(Object key) {
        return client.lock(prefix + Objects.requireNonNull(key, "key"), options);
    }
}
