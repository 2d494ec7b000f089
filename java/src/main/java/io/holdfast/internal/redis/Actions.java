package io.holdfast.internal.redis;

import io.holdfast.internal.core.Threads;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool.ForkJoinWorkerThreadFactory;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

/**
 * Completes futures and runs the user's actions: on the user's executor, or on a small pool, which
 * replaces a thread while it waits for a lock.
 */
final class Actions implements Executor {
    private static final int THREADS = 4;
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private static final ForkJoinWorkerThreadFactory FACTORY =
            pool -> {
                var thread = ForkJoinPool.defaultForkJoinWorkerThreadFactory.newThread(pool);
                thread.setName("holdfast-actions-" + NUMBERS.incrementAndGet());
                return thread;
            };

    private final Executor chosen;
    /** Has no thread before its first task. */
    private final ForkJoinPool pool = new ForkJoinPool(THREADS, FACTORY, null, true);
    private volatile boolean ending;

    /** Null: use the pool. */
    Actions(Executor chosen) {
        this.chosen = chosen;
    }

    /** Never refuses: an acquired lock must be reported. */
    @Override
    public void execute(Runnable action) {
        if (chosen == null) {
            executeHere(action);
            return;
        }
        Once once = once(action);
        try {
            chosen.execute(once);
        } catch (RuntimeException | Error e) { // it is full, has ended or has no thread
            if (once.get()) {
                throw e; // it ran the action on this thread
            }
            executeHere(once);
        }
    }

    /** Runs the library's own actions, which do not wait behind the user's executor. */
    void executeHere(Runnable action) {
        Once once = once(action);
        try {
            try {
                pool.execute(once);
            } catch (RejectedExecutionException closed) {
                Threads.start("holdfast-actions", once);
            }
        } catch (Error noThread) { // the pool may have queued the action all the same
            once.run();
        }
    }

    /** Makes an action that runs once; waits for memory, because a future starts its action only once. */
    private Once once(Runnable action) {
        for (;;) {
            try {
                return new Once(action);
            } catch (OutOfMemoryError e) {
                if (!awaitMemory()) {
                    throw e;
                }
            }
        }
    }

    /** Waits a moment if the heap is full; false: the client is being closed, and does not wait. */
    boolean awaitMemory() {
        try { // not in another class: a full heap may have no room to load it
            LockSupport.parkNanos(10_000_000);
        } catch (OutOfMemoryError e) { // a virtual thread needs a timer
            Thread.onSpinWait();
        }
        return !ending;
    }

    /** Ends all waits for memory: the client is being closed. */
    void end() {
        ending = true;
    }

    /** An action that runs once: an executor that throws may still have accepted it. True: it has begun. */
    private static final class Once extends AtomicBoolean implements Runnable {
        private static final long serialVersionUID = 1;

        private final transient Runnable action;

        Once(Runnable action) {
            this.action = action;
        }

        @Override
        public void run() {
            if (compareAndSet(false, true)) {
                action.run();
            }
        }
    }

    /** Shuts the pool down; earlier actions still run. */
    void close() {
        pool.shutdown();
    }
}
