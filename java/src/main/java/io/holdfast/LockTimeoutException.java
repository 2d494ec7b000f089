package io.holdfast;

import java.time.Duration;
import java.util.List;
import java.util.function.Supplier;

/** Other owners kept the lock for the whole timeout. The caller does not hold it, and nothing is left behind. */
public class LockTimeoutException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** The name of the lock, or empty. */
    private final String name;

    /** How long the acquire waited. */
    private final Duration waited;

    private final transient Supplier<List<LockHolder>> look;
    private transient volatile List<LockHolder> holders;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     */
    public LockTimeoutException(String message) {
        this(message, "", Duration.ZERO, List::of);
    }

    /**
     * For tests and frameworks that replace the client.
     *
     * @param message what went wrong
     * @param name the lock's name
     * @param waited how long the acquire waited
     * @param look finds the holders of the lock
     */
    public LockTimeoutException(
            String message, String name, Duration waited, Supplier<List<LockHolder>> look) {
        super(message);
        this.name = name;
        this.waited = waited;
        this.look = look;
    }

    /**
     * The name of the lock.
     *
     * @return its bytes as UTF-8; of several locks, the lock that was waited for last, or whose lease
     *     ended meanwhile; empty if the exception was made without a name
     */
    public String name() {
        return name;
    }

    /**
     * How long the acquire waited: its timeout.
     *
     * @return zero if it tried once
     */
    public Duration waited() {
        return waited;
    }

    /**
     * Returns the holders of the lock. The first call asks the server for the holders at that moment,
     * and later calls return the same.
     *
     * @return at most 100; empty if the lock has become free, another library's lock holds it, the
     *     server does not answer, or the exception comes from another process
     */
    public List<LockHolder> holders() {
        List<LockHolder> seen = holders;
        if (seen != null) {
            return seen;
        }
        try {
            seen = look == null ? List.of() : look.get();
        } catch (HoldfastException | ClosedException unknown) {
            seen = List.of();
        }
        synchronized (this) { // not held while the server is asked
            if (holders == null) {
                holders = seen;
            }
            return holders;
        }
    }
}
