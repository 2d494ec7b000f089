package io.holdfast;

import java.time.Duration;

/**
 * How a lock is held. Immutable: every method answers new options.
 *
 * <pre>{@code
 * client.lock("report", LockOptions.defaults().lease(Duration.ofMinutes(2)).renew(true))
 * }</pre>
 */
public final class LockOptions {
    private static final LockOptions DEFAULTS = new LockOptions(0, Core.HF_DEFAULT, true, null);

    /** As in hf_lock_options: 0 is the library's choice. */
    final long leaseMillis;

    final int renew;
    final boolean reentrant;

    /** Null: the calling thread, or, if not reentrant, each acquire for itself. */
    final byte[] owner;

    private LockOptions(long leaseMillis, int renew, boolean reentrant, byte[] owner) {
        this.leaseMillis = leaseMillis;
        this.renew = renew;
        this.reentrant = reentrant;
        this.owner = owner;
    }

    /**
     * The defaults: a lease of 10 seconds, renewed until it is released, reentrant per thread.
     *
     * @return the default options
     */
    public static LockOptions defaults() {
        return DEFAULTS;
    }

    /**
     * How long the lock stays held when its holder is gone. A lease that is given here is not
     * renewed unless {@link #renew} says so: the hold just ends with it.
     *
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive; {@link HoldfastClient#lock(String,
     *     LockOptions)} refuses what else is out of these bounds
     */
    public LockOptions lease(Duration lease) {
        return new LockOptions(Millis.positive(lease, "lease"), renew, reentrant, owner);
    }

    /**
     * Without a lease: the lock stays held until somebody releases it, even if its holder is gone.
     *
     * @return new options
     */
    public LockOptions neverExpires() {
        return new LockOptions(Core.HF_NEVER, renew, reentrant, owner);
    }

    /**
     * Whether holds are renewed until they are released.
     *
     * @param renew by default only if no lease is given
     * @return new options
     */
    public LockOptions renew(boolean renew) {
        return new LockOptions(leaseMillis, renew ? Core.HF_ON : Core.HF_OFF, reentrant, owner);
    }

    /**
     * Whether an owner that holds the lock may acquire it again, and then releases it as often.
     *
     * @param reentrant true by default; false without an {@link #owner(String) owner} makes every
     *     acquire its own owner, so that a thread that holds the lock waits for itself, and any
     *     thread may {@link RedisLock#unlock unlock}
     * @return new options
     */
    public LockOptions reentrant(boolean reentrant) {
        return new LockOptions(leaseMillis, renew, reentrant, owner);
    }

    /**
     * Who holds the lock, instead of the calling thread.
     *
     * <p>Equal owners are one owner everywhere: {@code "worker"} on ten hosts excludes nothing.
     *
     * @param owner 1 to 4096 bytes in UTF-8
     * @return new options
     * @throws IllegalArgumentException if it cannot be written in UTF-8; {@link
     *     HoldfastClient#lock(String, LockOptions)} refuses one that is empty or too long
     */
    public LockOptions owner(String owner) {
        return new LockOptions(leaseMillis, renew, reentrant, Bytes.of(owner));
    }

    /**
     * Who holds the lock, instead of the calling thread, as any bytes.
     *
     * <p>Equal owners are one owner everywhere: {@code "worker"} on ten hosts excludes nothing.
     *
     * @param owner 1 to 4096 bytes
     * @return new options
     */
    public LockOptions owner(byte[] owner) {
        return new LockOptions(leaseMillis, renew, reentrant, owner.clone());
    }
}
