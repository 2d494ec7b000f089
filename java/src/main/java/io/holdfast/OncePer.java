package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;

/** Work that one of all callers does in a period. */
final class OncePer<T> implements Callable<Optional<T>> {
    /** To keep the lock, if an answer is lost. */
    private static final int TRIES = 3;

    private final HoldfastLock lock;
    private final Duration period;
    private final Callable<T> work;

    OncePer(HoldfastLock lock, Duration period, Callable<T> work) {
        if (period.isNegative() || period.isZero()) {
            throw new IllegalArgumentException("the period must be positive: " + period);
        }
        this.lock = lock;
        this.period = period;
        this.work = work;
    }

    /** Empty: it is not its turn. */
    @Override
    public Optional<T> call() throws Exception {
        long start = System.nanoTime();
        Hold hold;
        try {
            hold = lock.acquire(Duration.ZERO);
        } catch (LockTimeoutException e) {
            return Optional.empty();
        }
        T result;
        try {
            result = work.call();
        } catch (Throwable e) { // the turn is the next one's
            try {
                hold.close();
            } catch (RuntimeException failed) {
                e.addSuppressed(failed);
            }
            throw e;
        }
        keep(hold, start);
        return Optional.ofNullable(result);
    }

    private void keep(Hold hold, long start) {
        for (int tries = 1; ; tries++) {
            Duration left = period.minusNanos(System.nanoTime() - start);
            try {
                hold.keep(left.isNegative() ? Duration.ZERO : left);
                return;
            } catch (LockUnknownException | ConnectionFailedException e) {
                if (tries == TRIES) {
                    throw e;
                }
            }
        }
    }
}
