package io.holdfast.internal.redis;

import io.holdfast.internal.core.Handle;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Closes a client when the JVM shuts down, if the program has not done it. It does not refer to the client,
 * which may be collected.
 */
final class ExitHook {
    /** How long a close waits for a call that is still running and will end the client. */
    private static final long PATIENCE_SECONDS = 3;

    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile Thread hook;

    void set(Handle client) {
        Thread thread = new Thread(null, () -> close(client), "holdfast-exit", 0, false);
        thread.setContextClassLoader(null);
        try {
            Runtime.getRuntime().addShutdownHook(thread);
            hook = thread;
        } catch (IllegalStateException e) {
            return; // the JVM is shutting down: whoever connects now closes it
        }
    }

    private void close(Handle client) {
        client.close();
        await();
    }

    /** Returns when the client is closed, which may be left to the last call that is running. */
    void await() {
        try {
            closed.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** The client is closed. */
    void remove() {
        closed.countDown();
        Thread thread = hook;
        if (thread == null) {
            return;
        }
        try {
            Runtime.getRuntime().removeShutdownHook(thread);
        } catch (IllegalStateException e) {
            return; // it runs
        }
    }
}
