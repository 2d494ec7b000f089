package io.holdfast;

import io.holdfast.internal.core.Backoff;
import io.holdfast.internal.core.Log;
import io.holdfast.internal.core.Threads;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Objects;
import java.util.OptionalLong;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * A candidate for leadership: of all candidates for a name, one leads. {@link
 * HoldfastClient#leader(String, LongConsumer, Runnable, Runnable)} makes it, and {@link #start()}
 * lets it stand.
 *
 * <p>A leader that cannot renew its lease is notified a quarter of the lease before it ends, while
 * no other candidate can be elected yet. Only a process that was suspended for longer than its lease
 * is notified later; then {@link #isLeader()} is false at once, and the {@linkplain #fence() fence}
 * protects the resource that the leader writes to.
 *
 * <p>Any thread may use it.
 */
public final class Leader implements AutoCloseable {
    private static final long AGAIN_NANOS = TimeUnit.MILLISECONDS.toNanos(500);

    /** How often a leader checks whether it still leads: the close of its client notifies no leader. */
    private static final long LOOK_NANOS = TimeUnit.MILLISECONDS.toNanos(100);

    private final HoldfastLock lock;
    private final long marginNanos;
    private final LongConsumer elected;
    private final Runnable lost;
    private final Runnable resigned;
    private final Backoff backoff = new Backoff();
    private final Semaphore changed = new Semaphore(0);
    private volatile Hold hold;
    private volatile boolean resigns;
    private volatile boolean failed;
    private volatile boolean stops;
    private volatile Thread work;
    private Thread thread;
    /** Whether the thread waits for the lock, and close() may interrupt it. */
    private boolean waits;

    Leader(
            HoldfastLock lock,
            Duration lease,
            LongConsumer elected,
            Runnable lost,
            Runnable resigned) {
        this.lock = lock;
        this.marginNanos = lease.toNanos() / 4;
        this.elected = Objects.requireNonNull(elected, "elected");
        this.lost = Objects.requireNonNull(lost, "lost");
        this.resigned = Objects.requireNonNull(resigned, "resigned");
    }

    /**
     * Stands as a candidate, in a daemon thread, until {@link #close()} or the client's close.
     *
     * @throws IllegalStateException if it was started before
     */
    public synchronized void start() {
        if (thread != null) {
            throw new IllegalStateException(this + " was started before");
        }
        thread = new Thread(this::run, "holdfast-leader");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Whether this candidate leads, by the clock of this moment. Sends nothing.
     *
     * @return false as soon as it should stop
     */
    public boolean isLeader() {
        Hold held = hold;
        return held != null && nanosLeft(held) > 0;
    }

    /**
     * The fence (a fencing token) of this leadership, greater than the fences of all earlier ones.
     *
     * @return empty if it does not lead
     */
    public OptionalLong fence() {
        Hold held = hold;
        return held != null && nanosLeft(held) > 0
                ? OptionalLong.of(held.fence())
                : OptionalLong.empty();
    }

    /** Ends the leadership, if there is one, and stands again, behind the other candidates. */
    public void resign() {
        if (hold != null) {
            resigns = true;
            changed.release();
        }
    }

    /**
     * Resigns, ends the candidacy, and waits until {@code elected} and {@code resigned} have
     * returned, even if the thread is interrupted. A call from within either of them does not wait.
     * A shutdown hook that calls it and a callback that calls {@link System#exit} would wait for each
     * other for ever.
     */
    @Override
    public void close() {
        Thread started;
        synchronized (this) {
            stops = true;
            started = thread;
            if (waits) {
                started.interrupt();
            }
        }
        changed.release();
        Thread caller = Thread.currentThread();
        if (started != null && caller != started && caller != work) {
            Threads.join(started);
        }
    }

    private long nanosLeft(Hold held) {
        return TimeUnit.NANOSECONDS.convert(held.remaining()) - marginNanos;
    }

    private void run() {
        while (!stops) {
            try {
                lead(stand());
                if (failed) {
                    rest(backoff.nanos());
                } else {
                    backoff.reset();
                }
            } catch (InterruptedException e) {
                continue; // interrupted by close(), or earlier by a callback
            } catch (ClosedException e) {
                return;
            } catch (RuntimeException | Error e) { // such as no thread or descriptor just now
                tryLater(e);
            }
        }
    }

    private void tryLater(Throwable why) {
        Log.log(Level.WARNING, this + " goes on as a candidate", why);
        await(AGAIN_NANOS);
    }

    /** Waits for the lock on this thread: the client's executor may be busy. */
    private Hold stand() throws InterruptedException {
        synchronized (this) {
            if (stops) {
                throw new InterruptedException();
            }
            waits = true;
        }
        try {
            return lock.acquire();
        } finally {
            synchronized (this) {
                waits = false;
            }
            Thread.interrupted(); // clears an interrupt that arrived too late
        }
    }

    /** Waits before standing again, so that another candidate may lead. */
    private void rest(long nanos) {
        long end = System.nanoTime() + nanos;
        for (long left = nanos; left > 0 && !stops; left = end - System.nanoTime()) {
            await(left);
        }
    }

    private void await(long nanos) {
        try {
            changed.tryAcquire(nanos, TimeUnit.NANOSECONDS);
        } catch (InterruptedException e) {
            // The caller checks the time again.
        }
    }

    private void lead(Hold won) {
        resigns = failed = false;
        changed.drainPermits();
        try {
            serve(won);
        } finally { // also if no thread can be started
            hold = null;
            end(won);
        }
    }

    private void serve(Hold won) {
        won.onLost(gone -> changed.release()); // first: it throws if the client was just closed
        hold = won;
        Thread worker = new Thread(() -> work(won.fence()), "holdfast-elected");
        worker.setDaemon(true);
        work = worker;
        worker.start();
        boolean standing = nanosLeft(won) > 0;
        while (standing && !resigns && !failed && !stops) {
            await(Math.min(nanosLeft(won), LOOK_NANOS));
            standing = nanosLeft(won) > 0;
        }
        hold = null;
        call(standing ? resigned : lost);
        worker.interrupt();
        Threads.join(worker);
    }

    private void end(Hold won) {
        try {
            won.close();
        } catch (HoldfastException | LockNotHeldException | ClosedException e) {
            Log.log(Level.DEBUG, "the end of a leadership", e); // the callbacks have been notified
        }
    }

    private void work(long fence) {
        try {
            elected.accept(fence);
        } catch (Throwable e) {
            Log.log(Level.WARNING, "elected() of " + this + " failed: it resigns", e);
            failed = true;
            changed.release();
        }
    }

    private void call(Runnable callback) {
        try {
            callback.run();
        } catch (Throwable e) {
            Log.log(Level.WARNING, "a callback of " + this + " failed", e);
        }
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return "Leader[" + lock.getName() + "]";
    }
}
