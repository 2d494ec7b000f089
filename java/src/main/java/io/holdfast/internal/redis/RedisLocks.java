package io.holdfast.internal.redis;

import io.holdfast.ClosedException;
import io.holdfast.LockInfo;
import io.holdfast.Locks;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Handle;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_lock_info;
import io.holdfast.internal.core.hf_progress;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.NoSuchElementException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/** A walk over the locks on Redis. */
final class RedisLocks implements Locks {
    private final Handle handle;
    /** Not a monitor: a virtual thread that waits with one would block its carrier. */
    private final ReentrantLock mutex = new ReentrantLock();

    /** Found, but not returned yet. */
    private LockInfo next;
    /** The number of locks returned; the core also counts {@link #next}. */
    private volatile long told;

    RedisLocks(long pointer) {
        Handle handle = new Handle(pointer, Core::hf_locks_close);
        handle.whenDropped(this, handle::close);
        this.handle = handle;
    }

    private <T> T alone(Supplier<T> work) {
        mutex.lock();
        try {
            return work.get();
        } finally {
            mutex.unlock();
        }
    }

    @Override
    public boolean hasNext() {
        return alone(
                () -> {
                    if (next == null) {
                        next = Threads.blocking(this::find);
                    }
                    return next != null;
                });
    }

    /** Returns the next lock; null at the end. */
    private LockInfo find() {
        try (hf_lock_info info = new hf_lock_info()) {
            Object[][] view = new Object[1][];
            call(locks -> view[0] = Core.hf_locks_next(locks, info), view);
            return view[0] == null ? null : Views.of(info, view[0]);
        }
    }

    @Override
    public LockInfo next() {
        return alone(
                () -> {
                    if (!hasNext()) {
                        throw new NoSuchElementException("the walk has told all locks");
                    }
                    LockInfo found = next;
                    next = null;
                    told++;
                    return found;
                });
    }

    /** Does not wait for a thread that is looking for the next lock. */
    @Override
    public Progress progress() {
        try (hf_progress progress = new hf_progress()) {
            call(locks -> Core.hf_locks_progress(locks, progress), progress);
            return new Progress(
                    told,
                    progress.getKeys_seen(),
                    progress.getKeys(),
                    progress.getRefused(),
                    progress.getCommands(),
                    progress.getRound_trips(),
                    Duration.of(progress.getAnswer_us(), ChronoUnit.MICROS));
        }
    }

    @Override
    public void close() {
        handle.close();
    }

    /** Calls the function, whose result is ignored and may be null. */
    private <T> void call(LongFunction<T> function, Object done) {
        if (handle.call(
                        locks -> {
                            function.apply(locks);
                            return done;
                        })
                == null) {
            throw new ClosedException("the walk is closed");
        }
    }
}
