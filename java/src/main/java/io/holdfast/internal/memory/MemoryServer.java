package io.holdfast.internal.memory;

import io.holdfast.ClosedException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/** The parts that all locks in one memory share: the mutex that guards them, timers, threads and numbers. */
final class MemoryServer {
    private static final ThreadFactory DAEMONS =
            work -> {
                Thread thread = new Thread(work, "holdfast-in-memory");
                thread.setDaemon(true);
                return thread;
            };

    private final ReentrantLock mutex = new ReentrantLock();
    private final ScheduledThreadPoolExecutor timers = new ScheduledThreadPoolExecutor(1, DAEMONS);

    /** Completes futures and runs users' actions. */
    final ExecutorService actions = Executors.newCachedThreadPool(DAEMONS);

    private long fence;
    private long serial;

    MemoryServer() {
        timers.setKeepAliveTime(1, TimeUnit.SECONDS);
        timers.allowCoreThreadTimeOut(true);
        timers.setRemoveOnCancelPolicy(true);
    }

    void run(Runnable work) {
        mutex.lock();
        try {
            work.run();
        } finally {
            mutex.unlock();
        }
    }

    <T> T locked(Supplier<T> work) {
        mutex.lock();
        try {
            return work.get();
        } finally {
            mutex.unlock();
        }
    }

    /** Returns a fence greater than all before; like the server's, it is a time. */
    long nextFence() {
        fence = Math.max(fence + 1, System.currentTimeMillis() * 1000);
        return fence;
    }

    /** Returns a number only once. */
    long nextSerial() {
        return ++serial;
    }

    Runnable after(long nanos, Runnable work) {
        var timer = timers.schedule(() -> run(work), nanos, TimeUnit.NANOSECONDS);
        return () -> timer.cancel(false);
    }

    static ClosedException closed() {
        return new ClosedException("the client is closed");
    }
}
