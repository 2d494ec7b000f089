package io.holdfast.testing;

import io.holdfast.ClosedException;
import io.holdfast.HoldfastClient;
import io.holdfast.LossCause;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;

/**
 * Locks in the memory of this process, for unit tests without a server. The clients that it {@link
 * #connect() makes} exclude each other as if they were connected to one Redis: owners, reentrance,
 * the queue, timeouts, leases, fences and losses are as there. It knows of no failures of the
 * network, no other libraries' locks and no replicas, counts all names together and raises no
 * alarm.
 *
 * <pre>{@code
 * InMemoryHoldfast redis = new InMemoryHoldfast();
 * HoldfastClient client = redis.connect();
 * Hold hold = client.lock("stock").acquire();
 * redis.lose("stock", LossCause.GONE);
 * assertFalse(hold.isValid());
 * }</pre>
 */
public final class InMemoryHoldfast {
    private static final ThreadFactory DAEMONS =
            work -> {
                Thread thread = new Thread(work, "holdfast-in-memory");
                thread.setDaemon(true);
                return thread;
            };

    /** Guards everything here, and in the locks and holds. */
    private final ReentrantLock mutex = new ReentrantLock();

    private final Map<ByteBuffer, MemoryState> states = new HashMap<>();
    /** By their tokens. */
    final Map<String, MemoryHold> handedOver = new HashMap<>();

    private final ScheduledThreadPoolExecutor timers = new ScheduledThreadPoolExecutor(1, DAEMONS);

    /** Completes futures and runs users' actions. */
    final ExecutorService actions = Executors.newCachedThreadPool(DAEMONS);

    private long fence;
    private long serial;

    /** Locks that nobody holds. */
    public InMemoryHoldfast() {
        timers.setKeepAliveTime(1, TimeUnit.SECONDS);
        timers.allowCoreThreadTimeOut(true);
        timers.setRemoveOnCancelPolicy(true);
    }

    /**
     * Makes a client; all clients of this object use the same locks.
     *
     * @return the client; close it at the end
     */
    public HoldfastClient connect() {
        return new MemoryClient(this);
    }

    /**
     * Takes a lock away from its holder, as a failover, an operator or the end of a lease can do.
     * The holds are lost at once, and the next waiter gets the lock.
     *
     * @param name the lock's name
     * @param cause why the holds are lost
     * @return whether somebody held it
     */
    public boolean lose(String name, LossCause cause) {
        ByteBuffer key = ByteBuffer.wrap(name.getBytes(StandardCharsets.UTF_8));
        return locked(
                () -> {
                    MemoryState state = states.get(key);
                    return state != null && state.lose(cause);
                });
    }

    <T> T locked(Supplier<T> work) {
        mutex.lock();
        try {
            return work.get();
        } finally {
            mutex.unlock();
        }
    }

    MemoryState state(byte[] name) {
        return states.computeIfAbsent(ByteBuffer.wrap(name), key -> new MemoryState(this));
    }

    Set<ByteBuffer> names() {
        return Set.copyOf(states.keySet());
    }

    /** Greater than all before; like the server's, which is a time. */
    long nextFence() {
        fence = Math.max(fence + 1, System.currentTimeMillis() * 1000);
        return fence;
    }

    /** A number that is given once. */
    long nextSerial() {
        return ++serial;
    }

    Runnable after(long nanos, Runnable work) {
        var timer =
                timers.schedule(
                        () ->
                                locked(
                                        () -> {
                                            work.run();
                                            return null;
                                        }),
                        nanos,
                        TimeUnit.NANOSECONDS);
        return () -> timer.cancel(false);
    }

    static ClosedException closed() {
        return new ClosedException("the client is closed");
    }
}
