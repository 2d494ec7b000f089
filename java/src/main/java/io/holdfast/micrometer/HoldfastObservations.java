package io.holdfast.micrometer;

import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.micrometer.common.KeyValue;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicReference;

/**
 * Observations of waits and holds, from which Micrometer makes spans and timers.
 *
 * <pre>{@code
 * HoldfastObservations observations = new HoldfastObservations(registry);
 * observations.hold(client.lock("stock"), Duration.ofSeconds(5), hold -> write(hold.fence()));
 * }</pre>
 *
 * <p>An acquire is an observation {@code holdfast.lock.wait}, and the work under the lock {@code
 * holdfast.lock.hold}, until its release. They have the lock's name as {@code holdfast.lock} and the
 * fence as {@code holdfast.fence}, both of high cardinality, and the exceptions that end them. The
 * Spring Boot starter observes {@code @Locked}, {@code @OncePer}, {@code @Leading} and {@code
 * @Idempotent} methods in this way.
 *
 * <p>Any thread may call every method.
 */
@SuppressWarnings("exports") // users of this class depend on Micrometer themselves
public final class HoldfastObservations {
    private final ObservationRegistry registry;

    /** Work under a lock. */
    @FunctionalInterface
    public interface Work<T> {
        /**
         * Does the work.
         *
         * @param hold the hold
         * @return the caller's result
         * @throws Exception if it fails
         */
        T with(Hold hold) throws Exception;
    }

    /**
     * Observes through the handlers of a registry.
     *
     * @param registry the application's registry
     */
    public HoldfastObservations(ObservationRegistry registry) {
        this.registry = Objects.requireNonNull(registry, "registry");
    }

    /**
     * Starts an observation {@code holdfast.lock.…}, for callers that stop it themselves.
     *
     * @param what {@code "wait"}, {@code "hold"} or {@code "lead"}
     * @param lock the lock's name
     * @return the observation, which is not the current one yet
     */
    public Observation start(String what, String lock) {
        return Observation.createNotStarted("holdfast.lock." + what, registry)
                .contextualName("holdfast " + what)
                .highCardinalityKeyValue(KeyValue.of("holdfast.lock", lock))
                .start();
    }

    /**
     * Acquires the lock like {@link HoldfastLock#acquire(Duration)}.
     *
     * @param lock the lock
     * @param timeout how long to wait; zero tries once
     * @return the hold; close it
     * @throws InterruptedException if the thread is interrupted before the lock is acquired
     */
    public Hold acquire(HoldfastLock lock, Duration timeout) throws InterruptedException {
        Observation wait = start("wait", lock.getName());
        Hold[] acquired = new Hold[1];
        try {
            try {
                return wait.<Hold, InterruptedException>scopedChecked(
                        () -> acquired[0] = lock.acquire(timeout));
            } finally {
                wait.stop();
            }
        } catch (RuntimeException | Error e) {
            if (acquired[0] != null) { // a user's handler failed
                acquired[0].close();
            }
            throw e;
        }
    }

    /**
     * Acquires the lock like {@link HoldfastLock#acquireAsync(Duration)}.
     *
     * @param lock the lock
     * @param timeout how long to wait; zero tries once
     * @return the hold; close it
     */
    public CompletableFuture<Hold> acquireAsync(HoldfastLock lock, Duration timeout) {
        Observation wait = start("wait", lock.getName());
        CompletableFuture<Hold> acquiring = acquireAsync(wait, lock, timeout);
        acquiring.whenComplete((hold, failure) -> stop(wait, failure));
        return acquiring;
    }

    /**
     * Acquires the lock like {@link HoldfastLock#acquireAsync(Duration)}, and does not stop the
     * observation.
     *
     * @param wait from {@link #start}
     * @param lock the lock
     * @param timeout how long to wait; zero tries once
     * @return the hold; close it
     */
    public CompletableFuture<Hold> acquireAsync(
            Observation wait, HoldfastLock lock, Duration timeout) {
        AtomicReference<CompletableFuture<Hold>> started = new AtomicReference<>();
        try {
            wait.scoped(() -> started.set(lock.acquireAsync(timeout)));
        } catch (RuntimeException | Error e) {
            if (started.get() != null && !started.get().cancel(true)) { // a user's handler failed
                started.get().thenAccept(Hold::releaseAsync);
            }
            throw e;
        }
        return started.get();
    }

    /**
     * Does the work with a hold, and releases nothing. If the work returns a {@link CompletionStage},
     * the observation ends when the stage does.
     *
     * @param hold the hold
     * @param lock the lock's name
     * @param work the work, in which the observation is the current one
     * @param <T> the type of the result
     * @return the result of the work
     * @throws Exception the exceptions of the work
     */
    public <T> T during(Hold hold, String lock, Callable<T> work) throws Exception {
        Observation held = start("hold", lock);
        held.highCardinalityKeyValue("holdfast.fence", Long.toString(hold.fence()));
        return during(held, work);
    }

    /**
     * Does the work in an observation, which ends with it.
     *
     * @param observation from {@link #start}
     * @param work the work, in which the observation is the current one
     * @param <T> the type of the result
     * @return the result of the work
     * @throws Exception the exceptions of the work
     */
    public <T> T during(Observation observation, Callable<T> work) throws Exception {
        T result;
        try {
            result = observation.<T, Exception>scopedChecked(work::call);
        } catch (Exception | Error e) { // the observation has recorded it
            observation.stop();
            throw e;
        }
        if (result instanceof CompletionStage<?> later) {
            later.whenComplete((value, failure) -> stop(observation, failure));
        } else {
            stop(observation, null);
        }
        return result;
    }

    /**
     * Acquires the lock, does the work, and releases the lock.
     *
     * @param lock the lock
     * @param timeout how long to wait; zero tries once
     * @param work the work
     * @param <T> the type of the result
     * @return the result of the work
     * @throws Exception the exceptions of the acquire, the work or the release
     */
    public <T> T hold(HoldfastLock lock, Duration timeout, Work<T> work) throws Exception {
        try (Hold hold = acquire(lock, timeout)) { // closed here if a handler fails before the work
            return during(
                    hold,
                    lock.getName(),
                    () -> {
                        try (hold) {
                            return work.with(hold);
                        }
                    });
        }
    }

    /**
     * Stops an observation.
     *
     * @param observation from {@link #start}
     * @param failure the exception that ended it; null if nothing failed
     */
    public static void stop(Observation observation, Throwable failure) {
        if (failure != null) {
            observation.error(failure);
        }
        observation.stop();
    }
}
