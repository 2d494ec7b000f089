package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * The options of a lock. Immutable: every method returns new options.
 *
 * <pre>{@code
 * client.lock("report", LockOptions.defaults().maxHold(Duration.ofHours(1)).reentrant(false))
 * }</pre>
 */
public final class LockOptions {
    private static final LockOptions DEFAULTS = new LockOptions(new LockSettings());

    /** The core's default; for {@link #lease()}. */
    private static final Duration DEFAULT_LEASE = Duration.ofSeconds(10);

    private static final Duration LONGEST_AHEAD = Duration.ofHours(1);

    static {
        LockSettings.openBy(options -> ((LockOptions) options).settings);
    }

    private final LockSettings settings;

    private LockOptions(LockSettings settings) {
        this.settings = settings;
    }

    /** Returns new options with one change. */
    private LockOptions with(Consumer<LockSettings> change) {
        return new LockOptions(settings.with(change));
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
     * How long the lock stays held after its holder is gone. A hold is renewed until it is released,
     * unless {@link #renew} is false: then it ends with its lease.
     *
     * @param lease 10 milliseconds to 10 years; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive; {@link HoldfastClient#lock(String,
     *     LockOptions)} refuses any other lease out of these bounds
     */
    public LockOptions lease(Duration lease) {
        long millis = Millis.positive(lease, "lease");
        return with(o -> o.leaseMillis = millis);
    }

    /**
     * No lease: the lock stays held until it is released, even if its holder is gone.
     *
     * @return new options
     */
    public LockOptions neverExpires() {
        return with(o -> o.leaseMillis = Millis.ENDLESS);
    }

    /**
     * Whether holds are renewed until they are released; if not, they end with their lease.
     *
     * @param renew true by default; {@link HoldfastClient#lock(String, LockOptions)} refuses true
     *     for a lock that {@linkplain #neverExpires() never expires}
     * @return new options
     */
    public LockOptions renew(boolean renew) {
        return with(o -> o.renew = renew ? Core.HF_ON : Core.HF_OFF);
    }

    /**
     * Ends a hold after this time at the latest, so that a stuck thread does not keep the lock for
     * ever. A nested hold ends with the outermost hold, if its own lock has such a time, too.
     *
     * @param time 10 milliseconds to 10 years; rounded up to milliseconds; by default there is no
     *     limit
     * @return new options
     * @throws IllegalArgumentException if it is not positive; {@link HoldfastClient#lock(String,
     *     LockOptions)} refuses it for a lock that {@linkplain #neverExpires() never expires} or is
     *     not {@linkplain #renew renewed}
     */
    public LockOptions maxHold(Duration time) {
        long millis = Millis.positive(time, "longest hold");
        return with(o -> o.maxHoldMillis = millis);
    }

    /**
     * Whether an acquire that finds another library's lock without an expiry sets this lock's lease as its
     * expiry. Otherwise such a lock would stand for ever if its holder is gone.
     *
     * @param heal false by default
     * @return new options
     */
    public LockOptions heal(boolean heal) {
        return with(o -> o.heal = heal);
    }

    /**
     * The number of replicas that must confirm an acquire before it returns (Redis's {@code
     * WAIT}). If they do not confirm it in time, the lock is released again and the acquire throws
     * {@link LockNotReplicatedException}. A failover then loses fewer locks, but it can still lose
     * one: only the fence protects against that.
     *
     * @param count 0, which is the default, or more; 0 is the number in the client's URL ({@code
     *     ?replicas=1}), or none
     * @param timeout the time limit; positive, shorter than the lease, rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if the count is negative or the timeout is not positive;
     *     {@link HoldfastClient#lock(String, LockOptions)} refuses a timeout that is not shorter
     *     than the lease
     */
    public LockOptions replicas(int count, Duration timeout) {
        return replicas(count, Millis.positive(timeout, "replica timeout"));
    }

    /**
     * The number of replicas that must confirm an acquire before it returns, within one second, or
     * within half of a lease shorter than two seconds.
     *
     * @param count 0, which is the default, or more
     * @return new options
     * @throws IllegalArgumentException if it is negative
     * @see #replicas(int, Duration)
     */
    public LockOptions replicas(int count) {
        return replicas(count, 0);
    }

    private LockOptions replicas(int count, long timeoutMillis) {
        if (count < 0) {
            throw new IllegalArgumentException("the replicas must not be negative: " + count);
        }
        return with(
                o -> {
                    o.replicas = count;
                    o.replicaTimeoutMillis = timeoutMillis;
                });
    }

    /**
     * Whether an owner that holds the lock may acquire it again; it must then release each acquire.
     *
     * @param reentrant true by default; false without an {@link #owner(String) owner} gives every
     *     acquire a new owner, so that a thread that holds the lock and acquires it again waits for
     *     itself, and any thread may {@link HoldfastLock#unlock unlock}
     * @return new options
     */
    public LockOptions reentrant(boolean reentrant) {
        return with(o -> o.reentrant = reentrant);
    }

    /**
     * The number of holders that {@link HoldfastLock#shared()} allows at once: a semaphore.
     * The lock itself excludes all of them.
     *
     * @param count 1 to 9999999999; 0, which is the default: no limit, as for readers
     * @return new options
     * @throws IllegalArgumentException if it is out of these bounds
     */
    public LockOptions permits(long count) {
        if (count < 0 || count > 9_999_999_999L) {
            throw new IllegalArgumentException(
                    "the permits must be from 0 to 9999999999: " + count);
        }
        return with(o -> o.permits = count);
    }

    /**
     * The number of permits that a shared hold takes. No acquire overtakes a heavier acquire that
     * arrived before, so lighter acquires wait behind it. {@link HoldfastLock#shared(long)} does the same
     * for one lock.
     *
     * @param weight 1, which is the default, or up to the permits; a lock with fewer permits is
     *     refused
     * @return new options
     * @throws IllegalArgumentException if it is below 1, or above 9999999999
     */
    public LockOptions weight(long weight) {
        if (weight < 1 || weight > 9_999_999_999L) {
            throw new IllegalArgumentException(
                    "the weight must be from 1 to 9999999999: " + weight);
        }
        return with(o -> o.weight = weight);
    }

    /**
     * The head start of an acquire that has to wait: it is queued as if it had arrived earlier by that
     * time. So it overtakes waiters that arrived up to that time before it, and no waiter waits for
     * ever, however many acquires have a head start.
     *
     * @param time zero, which is the default, to an hour; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is out of these bounds
     */
    public LockOptions ahead(Duration time) {
        if (time.isNegative() || time.compareTo(LONGEST_AHEAD) > 0) {
            throw new IllegalArgumentException(
                    "the head start must be from zero to an hour: " + time);
        }
        return with(o -> o.aheadMillis = Millis.of(time));
    }

    /**
     * The owner that holds the lock, instead of the calling thread.
     *
     * <p>Equal owners are one owner everywhere: {@code "worker"} on ten hosts excludes nothing.
     *
     * @param owner 1 to 4096 bytes in UTF-8
     * @return new options
     * @throws IllegalArgumentException if it cannot be encoded in UTF-8; {@link
     *     HoldfastClient#lock(String, LockOptions)} refuses an owner that is empty or too long
     */
    public LockOptions owner(String owner) {
        return owner(Bytes.of(Objects.requireNonNull(owner, "owner")));
    }

    /**
     * The owner that holds the lock, instead of the calling thread, as any bytes.
     *
     * <p>Equal owners are one owner everywhere: {@code "worker"} on ten hosts excludes nothing.
     *
     * @param owner 1 to 4096 bytes
     * @return new options
     */
    public LockOptions owner(byte[] owner) {
        byte[] copy = owner.clone();
        return with(o -> o.owner = copy);
    }

    /**
     * The purpose of the holds, for people: {@code "refund 17"}. {@link HoldfastLock#inspect()}, the
     * message of a timeout and {@code holdfast ls}, {@code top} and {@code inspect} show the note
     * beside the owner. If OpenTelemetry has a current span, its trace id follows. A nested hold has
     * the note of the outer hold.
     *
     * @param note at most 1024 bytes in UTF-8; empty: none
     * @return new options
     * @throws IllegalArgumentException if it is longer, or cannot be encoded in UTF-8
     */
    public LockOptions note(String note) {
        byte[] bytes = Bytes.of(Objects.requireNonNull(note, "note"));
        if (bytes.length > Core.HF_NOTE_MAX) {
            throw new IllegalArgumentException(
                    "the note has " + bytes.length + " bytes: at most " + Core.HF_NOTE_MAX);
        }
        return with(o -> o.note = bytes.length == 0 ? null : bytes);
    }

    /**
     * Whether this name is counted separately in {@link HoldfastClient#stats()}.
     *
     * @param count by default the value of {@link ClientOptions#countNames}
     * @return new options
     */
    public LockOptions countName(boolean count) {
        return with(o -> o.countName = count ? Core.HF_ON : Core.HF_OFF);
    }

    /**
     * The alarm of this lock, instead of the client's; see {@link ClientOptions#alarm}.
     *
     * @param timeouts 1 or more
     * @param window positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if either is not positive
     */
    public LockOptions alarm(int timeouts, Duration window) {
        if (timeouts < 1) {
            throw new IllegalArgumentException("the timeouts must be at least 1: " + timeouts);
        }
        long millis = Millis.positive(window, "alarm's window");
        return with(
                o -> {
                    o.alarmTimeouts = timeouts;
                    o.alarmWindowMillis = millis;
                });
    }

    /**
     * Turns the alarm off for this lock, whatever the client's options.
     *
     * @return new options
     */
    public LockOptions noAlarm() {
        return with(
                o -> {
                    o.alarmTimeouts = -1;
                    o.alarmWindowMillis = 0;
                });
    }

    /** Returns the options of a gate whose rate is stored with its name. */
    LockOptions stored() {
        return with(o -> o.leaseMillis = Millis.STORED);
    }

    /** Returns the options of a leader, which otherwise might have to step down within moments. */
    LockOptions whole() {
        return with(o -> o.whole = true);
    }

    // The chosen options, for tests and frameworks that replace the client.

    /**
     * The lease that was chosen, or the default.
     *
     * @return {@link Hold#FOREVER} if the lock never expires
     */
    public Duration lease() {
        long millis = settings.leaseMillis;
        return millis == 0 ? DEFAULT_LEASE : Millis.toDuration(millis);
    }

    /**
     * Whether holds are renewed, as chosen or by default.
     *
     * @return whether they are renewed until they are released
     */
    public boolean renew() {
        return settings.renew != Core.HF_OFF;
    }

    /**
     * The time after which a hold ends at the latest.
     *
     * @return {@link Hold#FOREVER} if there is no limit
     */
    public Duration maxHold() {
        long millis = settings.maxHoldMillis;
        return millis == 0 ? Hold.FOREVER : Duration.ofMillis(millis);
    }

    /**
     * Whether an owner may acquire the lock again.
     *
     * @return true by default
     */
    public boolean reentrant() {
        return settings.reentrant;
    }

    /**
     * The number of holders that {@link HoldfastLock#shared()} allows at once.
     *
     * @return 0 if there is no limit
     */
    public long permits() {
        return settings.permits;
    }

    /**
     * The number of permits that a shared hold takes.
     *
     * @return 1 by default
     */
    public long weight() {
        return settings.weight;
    }

    /**
     * The head start of an acquire that has to wait.
     *
     * @return zero by default
     */
    public Duration ahead() {
        return Duration.ofMillis(settings.aheadMillis);
    }

    /**
     * The purpose of the holds.
     *
     * @return empty if there is no note
     */
    public String note() {
        return settings.note == null ? "" : Bytes.text(settings.note);
    }

    /**
     * The owner that was chosen.
     *
     * @return empty if it is the calling thread, or a new one for each acquire
     */
    public Optional<byte[]> owner() {
        return Optional.ofNullable(settings.owner).map(byte[]::clone);
    }
}
