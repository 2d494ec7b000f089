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
 * Where futures are completed and the user's actions run: the user's executor, or a small pool. A
 * thread of the pool that waits for a lock is replaced meanwhile.
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
    /** It has no thread before its first task. */
    private final ForkJoinPool pool = new ForkJoinPool(THREADS, FACTORY, null, true);
    private volatile boolean ending;

    /** Null: the pool. */
    Actions(Executor chosen) {
        this.chosen = chosen;
    }

    /** Never refuses: a lock that was acquired must be told. */
    @Override
    public void execute(Runnable action) {
        if (chosen == null) {
            executeHere(action);
            return;
        }
        Once once = once(action);
        try {
            chosen.execute(once);
        } catch (RuntimeException | Error e) { // it is full, or has ended, or has no thread
            if (once.get()) {
                throw e; // it ran the action on this thread
            }
            executeHere(once);
        }
    }

    /** For the library's own actions: they do not wait behind the user's executor. */
    void executeHere(Runnable action) {
        Once once = once(action);
        try {
            try {
                pool.execute(once);
            } catch (RejectedExecutionException closed) {
                Threads.start("holdfast-actions", once);
            }
        } catch (Error noThread) { // though it may be in the queue
            once.run();
        }
    }

    /** A future does not give its action once more. */
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

    /** Waits for a moment, if the heap is full; false: the client is being closed, and waits for nothing. */
    boolean awaitMemory() {
        try { // here: there is no memory to load another class
            LockSupport.parkNanos(10_000_000);
        } catch (OutOfMemoryError e) { // a virtual thread needs a timer
            Thread.onSpinWait();
        }
        return !ending;
    }

    /** The client is being closed. */
    void end() {
        ending = true;
    }

    /** An executor that throws may have taken the action all the same. True: it has begun. */
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

    /** What was given before still runs. */
    void close() {
        pool.shutdown();
    }
}
