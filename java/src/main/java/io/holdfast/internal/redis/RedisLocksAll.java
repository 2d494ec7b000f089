package io.holdfast.internal.redis;

import io.holdfast.Hold;
import io.holdfast.Holds;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_acquire_options;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;

/** Acquires several locks on Redis at once. */
final class RedisLocksAll {
    private final Session client;
    private final List<RedisLock> locks;

    RedisLocksAll(Session client, List<RedisLock> locks) {
        this.client = client;
        this.locks = locks;
    }

    /** Starts the acquire even if the calling thread waits: in native code it could not be interrupted. */
    CompletableFuture<Holds> begin(Duration timeout, boolean byThread) {
        List<Held.Key> keys = locks.stream().map(lock -> lock.holdKey(byThread)).toList();
        Map<String, Hold> made = new LinkedHashMap<>(); // before the acquire, so that a failure loses no hold
        return locks.get(0)
                .begin(
                        outcome -> locks.get(outcome.lock()).timedOut(timeout, outcome.text()),
                        () -> start(Millis.timeout(timeout), byThread),
                        UnaryOperator.identity(),
                        outcome -> holds(outcome.holds(), keys, made),
                        unwanted -> unwanted.holds().values().forEach(Hold::releaseAsync),
                        byThread);
    }

    private Completions.Operation start(long timeoutMillis, boolean byThread) {
        boolean perThread = byThread && locks.stream().allMatch(RedisLock::isPerThread);
        byte[] owner = perThread ? client.holdOwner() : null;
        long[] pointers = locks.stream().mapToLong(RedisLock::pointer).toArray();
        hf_acquire_options[] how =
                locks.stream()
                        .map(lock -> lock.how(byThread && lock.isPerThread() && lock.holdsItself(false)))
                        .toArray(hf_acquire_options[]::new);
        try {
            return client.start(
                    pointers.length,
                    number ->
                            Core.hf_lock_acquire_all_start(
                                    pointers, owner, timeoutMillis, how, number));
        } finally {
            for (hf_acquire_options each : how) {
                each.close();
            }
            Reference.reachabilityFence(this);
        }
    }

    /** Makes a Hold for each pointer, or releases all. */
    private Holds holds(long[] pointers, List<Held.Key> keys, Map<String, Hold> holds) {
        Throwable failure = null;
        for (int at = 0; at < pointers.length; at++) {
            try {
                RedisLock lock = locks.get(at);
                Hold hold = RedisHold.of(client, lock, keys.get(at), pointers[at]);
                holds.put(lock.shownName(), hold);
            } catch (RuntimeException | Error e) { // the remaining pointers need their holds, too
                failure = e;
            }
        }
        if (failure != null) {
            holds.values().forEach(Hold::releaseAsync);
            throw Threads.raised(failure);
        }
        return new Holds(holds);
    }
}
