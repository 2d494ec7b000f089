package io.holdfast.internal.core;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.function.Supplier;

/** Tells virtual threads, which must not wait in native code, from the others. */
public final class Threads {
    /** Thread.isVirtual(), which Java 17 does not have. */
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

    /** Whether the calling thread is a virtual one. */
    public static boolean isVirtual() {
        try {
            return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(Thread.currentThread());
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    /**
     * Whether the calling thread may wait for long in native code: not a virtual one, and none of a
     * ForkJoinPool, which puts another thread in the place of one that parks, and of no other.
     */
    public static boolean mayBlock() {
        return !isVirtual() && !(Thread.currentThread() instanceof ForkJoinWorkerThread);
    }

    /** The exception to throw; throws an Error itself. */
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

    /** Waits for the end of a thread, even if the calling one is interrupted. */
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

    /** Does work that blocks in native code: here, if it may, else on another thread, if it can be had. */
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
