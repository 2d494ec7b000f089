package io.holdfast.internal.redis;

import io.holdfast.internal.core.Handle;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Closes a client when the JVM shuts down, if the program has not done so. It does not refer to the
 * client, which may be collected.
 */
final class ExitHook {
    /** How long a close waits for a running call that will end the client. */
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
            return; // the JVM is shutting down: the caller must close the client
        }
    }

    private void close(Handle client) {
        client.close();
        await();
    }

    /** Waits until the client is closed, perhaps by the last running call. */
    void await() {
        try {
            closed.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Removes the hook, because the client is closed. */
    void remove() {
        closed.countDown();
        Thread thread = hook;
        if (thread == null) {
            return;
        }
        try {
            Runtime.getRuntime().removeShutdownHook(thread);
        } catch (IllegalStateException e) {
            return; // the hook is running
        }
    }
}
