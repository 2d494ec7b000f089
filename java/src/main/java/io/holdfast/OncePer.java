package io.holdfast;

import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;

/** Work that only one caller does in each period. */
final class OncePer<T> implements Callable<Optional<T>> {
    private final HoldfastLock lock;
    private final Duration period;
    private final Callable<T> work;

    OncePer(HoldfastLock lock, Duration period, Callable<T> work) {
        if (period.isNegative() || period.isZero()) {
            throw new IllegalArgumentException("the period must be positive: " + period);
        }
        Millis.upToLongest(period);
        this.lock = lock;
        this.period = period;
        this.work = work;
    }

    /** Does the work; empty: it is not this caller's turn. */
    @Override
    public Optional<T> call() throws Exception {
        Hold hold;
        try {
            hold = lock.acquire(Duration.ZERO);
        } catch (LockTimeoutException e) {
            return Optional.empty();
        }
        try (hold) {
            hold.keepAtLeast(period);
            try {
                return Optional.ofNullable(work.call());
            } catch (Throwable e) {
                hold.keepAtLeast(Duration.ZERO); // the next caller has the turn
                throw e;
            }
        }
    }
}
