package io.holdfast;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

/**
 * A program of its own, for {@link ProcessTest}: for a while its heap is full, and each acquire that
 * ends meanwhile is told all the same.
 */
final class FullHeap {
    private static final Duration LEASE = Duration.ofSeconds(1);
    private static final Duration TIMEOUT = LEASE.dividedBy(2);
    private static final int TIMEOUTS = 300;

    public static void main(String[] arguments) throws Exception {
        // The machine may stand still for seconds, too.
        String url = arguments[0] + "?connect_timeout=20&command_timeout=20";
        try (HoldfastClient client = Holdfast.connect(url)) {
            HoldfastLock brief =
                    client.lock(arguments[1], LockOptions.defaults().lease(LEASE).renew(false));
            acquire(brief, client.lock(arguments[1]), () -> {}); // all that it needs is loaded
            acquire(brief, client.lock(arguments[1]), FullHeap::fill);
            client.lock(arguments[1]).acquireAsync().get(50, TimeUnit.SECONDS).close();
        }
        System.out.print("done");
    }

    /** One acquire is granted in time, and the others are not. */
    private static void acquire(HoldfastLock brief, HoldfastLock lock, Runnable meanwhile)
            throws Exception {
        brief.lock(); // which ends by itself
        CompletableFuture<Hold> granted = lock.acquireAsync();
        List<CompletableFuture<Hold>> refused = new ArrayList<>();
        for (int at = 0; at < TIMEOUTS; at++) {
            refused.add(lock.acquireAsync(TIMEOUT));
        }
        meanwhile.run();
        for (CompletableFuture<Hold> each : refused) {
            try {
                each.get(50, TimeUnit.SECONDS);
                throw new AssertionError("two hold it");
            } catch (ExecutionException e) {
                if (!(e.getCause() instanceof LockTimeoutException)) {
                    throw e;
                }
            }
        }
        granted.get(50, TimeUnit.SECONDS).close();
    }

    /** Until all acquires have ended. */
    private static void fill() {
        Object[] taken = null;
        for (int size = 1 << 20; size > 0; size /= 4) {
            try {
                for (;;) {
                    taken = new Object[] {taken, new byte[size]};
                }
            } catch (OutOfMemoryError full) {
                continue;
            }
        }
        try {
            Thread.sleep(LEASE.toMillis() * 2);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
        java.lang.ref.Reference.reachabilityFence(taken);
    }
}
