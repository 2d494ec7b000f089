package io.holdfast;

import io.holdfast.internal.core.Threads;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * Holds of several locks, which belong together: as soon as one is lost, or found to be lost, the
 * others are lost, too, and released. {@link HoldfastLocks#acquire()} makes them.
 *
 * <p>Any thread may use and release it.
 */
public final class Holds implements AutoCloseable {
    private final Map<String, Hold> holds;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param holds each hold by the name of its lock
     */
    public Holds(Map<String, Hold> holds) {
        this.holds = Collections.unmodifiableMap(holds);
    }

    /**
     * Each hold by the name of its lock. Bytes of a name that are not UTF-8 appear as {@code \\xff}.
     *
     * @return unmodifiable, in the order in which the names were given
     */
    public Map<String, Hold> holds() {
        return holds;
    }

    /**
     * The fence (a fencing token) of each lock; see {@link Hold#fence()}.
     *
     * @return by name, as in {@link #holds()}, in the order in which the names were given
     */
    public Map<String, Long> fences() {
        Map<String, Long> fences = new LinkedHashMap<>();
        holds.forEach((name, hold) -> fences.put(name, hold.fence()));
        return Collections.unmodifiableMap(fences);
    }

    /**
     * Returns how long all are certain to last. Sends nothing.
     *
     * @return {@link Hold#FOREVER} if no hold ever expires, zero if a hold is no longer held
     */
    public Duration remaining() {
        return holds.values().stream().map(Hold::remaining).min(Duration::compareTo).orElseThrow();
    }

    /**
     * Returns whether all are held, as far as this process knows. Sends nothing; see {@link #check()}.
     *
     * @return false if one was released, or all were lost
     */
    public boolean isValid() {
        return holds.values().stream().allMatch(Hold::isValid);
    }

    /**
     * Returns why they were lost. Sends nothing.
     *
     * @return the cause; empty if they were not lost, as far as this process knows
     */
    public Optional<LossCause> lossCause() {
        return holds.values().stream().flatMap(hold -> hold.lossCause().stream()).findFirst();
    }

    /**
     * Runs an action once when they are lost, as {@link Hold#onLost(Consumer)}.
     *
     * @param action takes these holds; its exceptions are logged
     */
    public void onLost(Consumer<? super Holds> action) {
        AtomicBoolean told = new AtomicBoolean();
        for (Hold each : holds.values()) {
            each.onLost(
                    lost -> {
                        if (told.compareAndSet(false, true)) {
                            action.accept(this);
                        }
                    });
        }
    }

    /**
     * Asks the server whether all still stand. One round trip for each.
     *
     * @throws LockNotHeldException if one was released before
     * @throws LockLostException if they were lost
     * @throws LockUnknownException if an answer was lost
     * @throws HoldfastException if the server could not be asked
     */
    public void check() {
        each(Hold::check);
    }

    /**
     * Makes each last its whole lease again, counted from now; see {@link Hold#renew()}.
     *
     * @throws LockNotHeldException if one was released before
     * @throws LockLostException if they were lost
     * @throws LockUnknownException if an answer was lost
     * @throws HoldfastException if the server could not be asked
     */
    public void renew() {
        each(Hold::renew);
    }

    /**
     * Leaves all locks held for that duration from now on, as {@link Hold#keep(Duration)} does. It tries
     * all; then the first exception is thrown, and the locks that are not kept stay held.
     *
     * @param duration zero releases them
     * @throws LockNotHeldException if one was released before
     * @throws LockLostException if they were lost
     * @throws LockUnknownException if an answer was lost
     * @throws HoldfastException if the server could not be asked
     */
    public void keep(Duration duration) {
        each(hold -> hold.keep(duration));
    }

    /**
     * Makes a release keep all locks for the rest of that duration, as {@link
     * Hold#keepAtLeast(Duration)} does.
     *
     * @param duration up to 10 years; zero: a release keeps nothing
     * @throws IllegalArgumentException if the duration is out of these bounds
     */
    public void keepAtLeast(Duration duration) {
        each(hold -> hold.keepAtLeast(duration));
    }

    /**
     * Releases all that were not released before. It tries all; then the first exception is
     * thrown, with the others {@linkplain Throwable#getSuppressed() suppressed} in it.
     *
     * @throws LockLostException if they were lost before: you may have to undo the work under them
     * @throws LockUnknownException if an answer was lost; that hold ends with its lease at the
     *     latest
     * @throws HoldfastException if one was not released; it ends with its lease
     */
    @Override
    public void close() {
        each(Hold::close);
    }

    private void each(Consumer<Hold> work) {
        Throwable failed = null;
        for (Hold hold : holds.values()) {
            try {
                work.accept(hold);
            } catch (RuntimeException | Error e) {
                if (failed == null) {
                    failed = e;
                } else if (failed != e) { // of a full heap, the JVM throws the same error again
                    failed.addSuppressed(e);
                }
            }
        }
        if (failed != null) {
            throw Threads.raised(failed);
        }
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "Holds" + fences();
    }
}
