package io.holdfast.testing;

import io.holdfast.ClientStats;
import io.holdfast.Finding;
import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import io.holdfast.LockStats;
import io.holdfast.RefusalCause;
import io.holdfast.Locks;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** A client of locks in memory. The mutex of its server guards it. */
final class MemoryClient implements HoldfastClient {
    private static final int MAX_BYTES = 4096;

    final InMemoryHoldfast server;
    final Set<MemoryHold> holds = new LinkedHashSet<>();
    /** What unlock() has to release, the oldest first; also what was lost. */
    final List<MemoryHold> kept = new ArrayList<>();

    private final Set<MemoryWaiter> waiting = new LinkedHashSet<>();
    private final ThreadLocal<ByteBuffer> threadOwner =
            ThreadLocal.withInitial(() -> newOwner('t'));
    final MemoryCounts counts = new MemoryCounts();
    private boolean closed;

    MemoryClient(InMemoryHoldfast server) {
        this.server = server;
    }

    ByteBuffer threadOwner() {
        return threadOwner.get();
    }

    ByteBuffer newOwner(char kind) {
        long number = server.locked(server::nextSerial);
        String owner = "in-memory/" + ProcessHandle.current().pid() + ":" + kind + number;
        return ByteBuffer.wrap(owner.getBytes(StandardCharsets.UTF_8));
    }

    void checkOpen() {
        if (closed) {
            throw InMemoryHoldfast.closed();
        }
    }

    @Override
    public HoldfastLock lock(byte[] name, LockOptions options) {
        checkLength(name, "name");
        options.owner().ifPresent(owner -> checkLength(owner, "owner"));
        checkLease(options.lease());
        server.locked(
                () -> {
                    checkOpen();
                    return null;
                });
        return new MemoryLock(this, name.clone(), options, false);
    }

    private static void checkLength(byte[] bytes, String what) {
        Objects.requireNonNull(bytes, what);
        if (bytes.length < 1 || bytes.length > MAX_BYTES) {
            throw new IllegalArgumentException(
                    "the " + what + " must have 1 to " + MAX_BYTES + " bytes: " + bytes.length);
        }
    }

    static Duration checkLease(Duration lease) {
        boolean never = lease.equals(Hold.FOREVER);
        if (!never && (lease.toMillis() < 10 || lease.toDays() > 3650)) {
            throw new IllegalArgumentException(
                    "a lease takes 10 milliseconds to 10 years: " + lease);
        }
        return lease;
    }

    void enqueue(MemoryState state, MemoryWaiter waiter) {
        waiting.add(waiter);
        state.queue.add(waiter);
    }

    void left(MemoryWaiter waiter) {
        waiting.remove(waiter);
    }

    /** Whether it was still in the queue. */
    boolean leave(MemoryState state, MemoryWaiter waiter, RefusalCause why) {
        left(waiter);
        boolean waits = state.queue.remove(waiter);
        if (waits) {
            counts.refused(why);
        }
        return waits;
    }

    @Override
    public Locks locks(String pattern, int rate) {
        checkLength(pattern.getBytes(StandardCharsets.UTF_8), "pattern");
        if (rate < -1 || rate == 0) {
            throw new IllegalArgumentException("the rate must be 1 or more, or -1: " + rate);
        }
        return server.locked(
                () -> {
                    checkOpen();
                    return new MemoryLocks(this, pattern);
                });
    }

    @Override
    public ClientStats stats() {
        return server.locked(
                () -> {
                    checkOpen();
                    LockStats all = counts.told(holds.size(), waiting.size());
                    return new ClientStats(all, Map.of(), all, 0, 0);
                });
    }

    @Override
    public void ping() {
        server.locked(
                () -> {
                    checkOpen();
                    return null;
                });
    }

    /** Finds nothing: memory has no settings. */
    @Override
    public List<Finding> survey(String name) {
        ping();
        return List.of();
    }

    @Override
    public void close() {
        server.locked(
                () -> {
                    closed = true;
                    for (MemoryWaiter waiter : List.copyOf(waiting)) {
                        waiter.request.lock().state().queue.remove(waiter);
                        waiter.completeExceptionally(InMemoryHoldfast.closed());
                    }
                    List.copyOf(holds).forEach(MemoryHold::end);
                    return null;
                });
    }
}
