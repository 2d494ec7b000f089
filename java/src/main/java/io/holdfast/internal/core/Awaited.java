package io.holdfast.internal.core;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinPool.ManagedBlocker;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;

/**
 * A future that a thread of a pool may wait for. While it waits for an ordinary future, a thread of a
 * ForkJoinPool may run other tasks of the pool, under the locks that it holds; here it runs none.
 */
public class Awaited<T> extends CompletableFuture<T> {
    @Override
    public T get() throws InterruptedException, ExecutionException {
        while (!isDone()) {
            try {
                if (!isInPool()) {
                    return super.get();
                }
                park(Long.MAX_VALUE);
            } catch (OutOfMemoryError e) { // still under way
                awaitMemory();
            }
        }
        return super.get();
    }

    @Override
    public T get(long timeout, TimeUnit unit)
            throws InterruptedException, ExecutionException, TimeoutException {
        if (isDone() || !isInPool()) {
            return super.get(timeout, unit);
        }
        park(unit.toNanos(timeout));
        return super.get(0, unit);
    }

    @Override
    public T join() {
        boolean interrupted = false;
        while (!isDone()) {
            try {
                if (!isInPool()) {
                    return super.join();
                }
                park(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                interrupted = true;
            } catch (OutOfMemoryError e) {
                awaitMemory();
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        return super.join();
    }

    /** Waits a moment, because the heap is full. */
    private static void awaitMemory() {
        try {
            LockSupport.parkNanos(10_000_000);
        } catch (OutOfMemoryError e) { // a virtual thread needs a timer
            Thread.onSpinWait();
        }
    }

    private static boolean isInPool() {
        return Thread.currentThread() instanceof ForkJoinWorkerThread;
    }

    /** Waits until this is done; meanwhile the pool replaces this thread with another. */
    private void park(long nanos) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(1);
        whenComplete((value, failure) -> done.countDown());
        ManagedBlocker wait =
                new ManagedBlocker() {
                    @Override
                    public boolean block() throws InterruptedException {
                        done.await(nanos, TimeUnit.NANOSECONDS);
                        return true;
                    }

                    @Override
                    public boolean isReleasable() {
                        return isDone();
                    }
                };
        try {
            ForkJoinPool.managedBlock(wait);
        } catch (RuntimeException | Error notReplaced) { // the pool can start no more threads
            wait.block();
        }
    }

    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new Awaited<>();
    }
}
