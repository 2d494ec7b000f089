package io.holdfast.internal.core;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.function.Supplier;

/** Distinguishes virtual threads, which must not wait in native code, from others; starts and joins threads. */
public final class Threads {
    /** Thread.isVirtual(), which Java 17 lacks. */
    private static final MethodHandle IS_VIRTUAL = find();

    private Threads() {}

    private static MethodHandle find() {
        try {
            return MethodHandles.publicLookup()
                    .findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    /** Whether the calling thread is virtual. */
    public static boolean isVirtual() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Whether the calling thread may wait for long in native code. A virtual thread may not, nor may a
     * thread of a ForkJoinPool: the pool replaces a thread that parks, but not one that blocks there.
     */
    public static boolean mayBlock() {
        return !isVirtual() && !(Thread.currentThread() instanceof ForkJoinWorkerThread);
    }

    /** Returns the exception to throw; throws an Error itself. */
    public static RuntimeException raised(Throwable failure) {
        if (failure instanceof Error error) {
            throw error;
        }
        return (RuntimeException) failure;
    }

    /** Starts a daemon thread that inherits nothing. */
    public static Thread start(String name, Runnable work) {
        Thread thread = new Thread(null, work, name, 0, false);
        thread.setDaemon(true);
        thread.setContextClassLoader(null);
        thread.start();
        return thread;
    }

    /** Waits for the end of a thread, even if the calling thread is interrupted. */
    public static void join(Thread thread) {
        boolean interrupted = false;
        while (thread.isAlive()) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Does work that blocks in native code: here, if this thread may block, else on another, if one can be started. */
    public static <T> T blocking(Supplier<T> work) {
        if (mayBlock()) {
            return work.get();
        }
        CompletableFuture<T> answer = new Awaited<>();
        Runnable there =
                () -> {
                    try {
                        answer.complete(work.get());
                    } catch (Throwable e) {
                        answer.completeExceptionally(e);
                    }
                };
        try {
            start("holdfast-blocking", there);
        } catch (OutOfMemoryError noThread) {
            there.run();
        }
        try {
            return answer.join();
        } catch (CompletionException e) {
            throw raised(e.getCause());
        }
    }
}
