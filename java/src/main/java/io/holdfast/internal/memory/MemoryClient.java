package io.holdfast.internal.memory;

import io.holdfast.ClientStats;
import io.holdfast.Finding;
import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.HoldfastLocks;
import io.holdfast.LockLimit;
import io.holdfast.LockOptions;
import io.holdfast.LockStats;
import io.holdfast.Locks;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.internal.core.Millis;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/** A client of locks in memory. The mutex of its server guards it. */
public final class MemoryClient implements HoldfastClient {
    private static final int MAX_BYTES = 4096;

    private final MemoryNames locks;
    private final MemoryBook book;

    public MemoryClient(MemoryNames locks) {
        this.locks = locks;
        this.book = new MemoryBook(locks.server);
    }

    @Override
    public HoldfastLock lock(byte[] name, LockOptions options) {
        checkLength(name, "name");
        options.owner().ifPresent(owner -> checkLength(owner, "owner"));
        if (LockSettings.of(options).leaseMillis > 0) { // given, and ends
            MemoryHold.checkLease(options.lease());
        }
        if (LockSettings.of(options).renew == Core.HF_ON && options.lease().equals(Hold.FOREVER)) {
            throw new IllegalArgumentException(
                    "renew does nothing for a lease that never ends: leave it out, or give a lease"
                            + " that ends");
        }
        checkMaxHold(options);
        ping();
        return new MemoryLock(locks, book, name.clone(), options, false);
    }

    private static void checkMaxHold(LockOptions options) {
        if (options.maxHold().equals(Hold.FOREVER)) {
            return;
        }
        if (options.lease().equals(Hold.FOREVER)) {
            throw new IllegalArgumentException("max_hold needs a lease that ends");
        }
        if (!options.renew()) {
            throw new IllegalArgumentException(
                    "max_hold does nothing without renewal: the lease ends the hold; leave max_hold"
                            + " out, or do not turn renew off");
        }
    }

    private static void checkLength(byte[] bytes, String what) {
        Objects.requireNonNull(bytes, what);
        if (bytes.length < 1 || bytes.length > MAX_BYTES) {
            throw new IllegalArgumentException(
                    "the " + what + " must have 1 to " + MAX_BYTES + " bytes: " + bytes.length);
        }
    }

    @Override
    public HoldfastLocks locksAll(Collection<? extends HoldfastLock> locks) {
        List<MemoryLock> mine = locks.stream().map(lock -> MemoryLock.of(lock, book)).toList();
        List<String> names = mine.stream().map(MemoryLock::shownName).toList();
        return new HoldfastLocks(names, new MemoryLocksAll(book.server, mine)::begin);
    }

    @Override
    public Optional<LockLimit> limit(String name, LockLimit limit) {
        byte[] bytes = Bytes.of(name);
        checkLength(bytes, "name");
        LockOptions.defaults().permits(limit.permits()); // checks the permits
        if (!limit.per().isZero()) {
            MemoryHold.checkLease(limit.per());
            if (limit.permits() == 0) {
                throw new IllegalArgumentException(
                        "a gate takes 1 or more in 10 ms to 10 years, not " + limit);
            }
        }
        return book.server.locked(
                () -> {
                    book.checkOpen();
                    Duration per = Duration.ofMillis(Millis.of(limit.per()));
                    return locks.state(bytes).limit(new LockLimit(limit.permits(), per));
                });
    }

    @Override
    public Locks locks(String pattern, int rate) {
        checkLength(pattern.getBytes(StandardCharsets.UTF_8), "pattern");
        if (rate < -1 || rate == 0) {
            throw new IllegalArgumentException("the rate must be 1 or more, or -1: " + rate);
        }
        return book.server.locked(
                () -> {
                    book.checkOpen();
                    return new MemoryLocks(locks, book, pattern);
                });
    }

    @Override
    public ClientStats stats() {
        return book.server.locked(
                () -> {
                    book.checkOpen();
                    LockStats all = book.counts.told(locks.holds(book).count(), locks.waiters(book).count());
                    return new ClientStats(all, Map.of(), all, 0, 0);
                });
    }

    @Override
    public void ping() {
        book.server.run(book::checkOpen);
    }

    /** Returns no findings: memory has no settings. */
    @Override
    public List<Finding> survey(String name) {
        ping();
        return List.of();
    }

    @Override
    public void close() {
        book.server.run(
                () -> {
                    book.close();
                    List<MemoryWaiter> waiting = locks.waiters(book).toList();
                    locks.forget(waiting);
                    waiting.forEach(each -> each.completeExceptionally(MemoryServer.closed()));
                    locks.holds(book).toList().forEach(MemoryHold::end);
                });
    }
}
