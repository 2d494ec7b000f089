package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.function.Executable;

/** Work in a thread of its own. */
final class Async<T> {
    final Thread thread;
    private final FutureTask<T> task;

    private Async(Callable<T> work) {
        task = new FutureTask<>(work);
        thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    static <T> Async<T> start(Callable<T> work) {
        return new Async<>(work);
    }

    /** Does it in another thread, and waits for the end of it. */
    static <T> T elsewhere(Callable<T> work) throws Exception {
        return start(work).get();
    }

    static void elsewhere(Runnable work) throws Exception {
        start(
                        () -> {
                            work.run();
                            return null;
                        })
                .get();
    }

    /** Does it in a thread of a ForkJoinPool, which must not wait in native code. */
    static void inAPool(Executable work) throws Exception {
        ForkJoinPool pool = new ForkJoinPool(1);
        try {
            pool.submit(() -> assertDoesNotThrow(work)).get(20, TimeUnit.SECONDS);
        } finally {
            pool.shutdown();
        }
    }

    /** The result, or what the work threw. */
    T get() throws Exception {
        try {
            return task.get(20, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Error error) {
                throw error;
            }
            throw (Exception) e.getCause();
        } catch (TimeoutException e) {
            throw new AssertionError("the thread has not ended", e);
        }
    }

    boolean isRunning() {
        return !task.isDone();
    }

    /** Waits until it is true; it must be so in good time. */
    static void until(BooleanSupplier isTrue) throws InterruptedException {
        long start = System.nanoTime();
        while (!isTrue.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < 20_000_000_000L, "waited too long");
            Thread.sleep(2);
        }
    }
}
