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
    private static final LockOptions DEFAULTS =
            new LockOptions(0, Core.HF_DEFAULT, 0, true, false, null);

    /** As in hf_lock_options: 0 is the library's choice. */
    final long leaseMillis;

    final int renew;
    final long maxHoldMillis;
    final boolean reentrant;
    final boolean heal;

    /** Null: the calling thread, or, if not reentrant, each acquire for itself. */
    final byte[] owner;

    private LockOptions(
            long leaseMillis,
            int renew,
            long maxHoldMillis,
            boolean reentrant,
            boolean heal,
            byte[] owner) {
        this.leaseMillis = leaseMillis;
        this.renew = renew;
        this.maxHoldMillis = maxHoldMillis;
        this.reentrant = reentrant;
        this.heal = heal;
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
        return new LockOptions(
                Millis.positive(lease, "lease"), renew, maxHoldMillis, reentrant, heal, owner);
    }

    /**
     * Without a lease: the lock stays held until somebody releases it, even if its holder is gone.
     *
     * @return new options
     */
    public LockOptions neverExpires() {
        return new LockOptions(Core.HF_NEVER, renew, maxHoldMillis, reentrant, heal, owner);
    }

    /**
     * Whether holds are renewed until they are released.
     *
     * @param renew by default only if no lease is given
     * @return new options
     */
    public LockOptions renew(boolean renew) {
        int chosen = renew ? Core.HF_ON : Core.HF_OFF;
        return new LockOptions(leaseMillis, chosen, maxHoldMillis, reentrant, heal, owner);
    }

    /**
     * After how long holds are renewed no more, so that a thread that is stuck does not keep the
     * lock for ever. Nested holds count from the outermost.
     *
     * @param time positive; rounded up to milliseconds; by default there is no limit
     * @return new options
     * @throws IllegalArgumentException if it is not positive; {@link HoldfastClient#lock(String,
     *     LockOptions)} refuses it for a lock that {@linkplain #neverExpires() never expires}
     */
    public LockOptions maxHold(Duration time) {
        long millis = Millis.positive(time, "longest hold");
        return new LockOptions(leaseMillis, renew, millis, reentrant, heal, owner);
    }

    /**
     * Whether a lock of another library that has no end, and so would stand for ever if its holder
     * is gone, is given this lock's lease when an acquire meets it.
     *
     * @param heal false by default
     * @return new options
     */
    public LockOptions heal(boolean heal) {
        return new LockOptions(leaseMillis, renew, maxHoldMillis, reentrant, heal, owner);
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
        return new LockOptions(leaseMillis, renew, maxHoldMillis, reentrant, heal, owner);
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
        return owner(Bytes.of(owner));
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
        return new LockOptions(
                leaseMillis, renew, maxHoldMillis, reentrant, heal, owner.clone());
    }
}
