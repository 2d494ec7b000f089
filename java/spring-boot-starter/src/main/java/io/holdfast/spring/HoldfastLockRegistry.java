package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.LockOptions;
import java.util.Objects;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Spring Integration's locks, on Redis: for aggregators and resequencers on several hosts, and
 * leaders. A lock is reentrant for its thread, renewed until it is released, and without conditions.
 *
 * <p>A thread that has lost a lock gets a {@link io.holdfast.LockLostException} from {@link
 * Lock#unlock()}, or, if it has not called that yet, once from its next acquire of the lock. So a
 * leader that has lost its lock does not mistake a new hold for the old one.
 */
public final class HoldfastLockRegistry implements LockRegistry {
    private final HoldfastClient client;
    private final LockOptions options;
    private final String prefix;

    /**
     * Makes a registry.
     *
     * @param client makes the locks
     * @param options the options of its locks, which are renewed in any case
     * @param prefix the text before each key in the lock's name
     */
    public HoldfastLockRegistry(HoldfastClient client, LockOptions options, String prefix) {
        this.client = Objects.requireNonNull(client, "client");
        this.options = options.renew(true);
        this.prefix = Objects.requireNonNull(prefix, "prefix");
    }

    /**
     * Returns the lock of a key.
     *
     * @param key its {@code toString()} is the end of the lock's name
     * @return the lock; all locks of one key are one lock
     * @throws IllegalArgumentException if no lock can have that name
     */
    @Override
    public Lock obtain(Object key) {
        return new RegistryLock(
                client.lock(prefix + Objects.requireNonNull(key, "key"), options));
    }
}
