package io.holdfast;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The holds that callers have in hand, by lock and owner, the oldest first. */
final class Held {
    /** A lock, one of its owners, and how that holds it. */
    record Key(ByteBuffer name, ByteBuffer owner, boolean shared) {
        static Key of(byte[] name, byte[] owner, boolean shared) {
            return new Key(ByteBuffer.wrap(name), ByteBuffer.wrap(owner), shared);
        }
    }

    private final Map<Key, Deque<WeakReference<RedisHold>>> holds = new ConcurrentHashMap<>();

    void add(Key key, WeakReference<RedisHold> hold) {
        holds.compute(
                key,
                (k, known) -> {
                    var all = known == null ? new ArrayDeque<WeakReference<RedisHold>>(2) : known;
                    all.addLast(hold);
                    return all;
                });
    }

    void remove(Key key, WeakReference<RedisHold> hold) {
        holds.computeIfPresent(
                key,
                (k, all) -> {
                    all.remove(hold);
                    return all.isEmpty() ? null : all;
                });
    }

    /** The newest that is valid; null if there is none. */
    RedisHold newest(Key key) {
        RedisHold[] found = new RedisHold[1];
        holds.computeIfPresent(
                key,
                (k, all) -> {
                    found[0] = newest(all.descendingIterator());
                    return all;
                });
        return found[0];
    }

    private static RedisHold newest(Iterator<WeakReference<RedisHold>> all) {
        while (all.hasNext()) {
            RedisHold hold = all.next().get();
            if (hold != null && hold.isValid()) {
                return hold;
            }
        }
        return null;
    }
}
