package io.holdfast.internal.redis;

import io.holdfast.Hold;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The holds that callers have in hand, by lock and owner, the oldest first. */
final class Held {
    /** A lock, one of its owners, and the owner's mode. */
    record Key(ByteBuffer name, ByteBuffer owner, boolean shared) {
        static Key of(byte[] name, byte[] owner, boolean shared) {
            return new Key(ByteBuffer.wrap(name), ByteBuffer.wrap(owner), shared);
        }
    }

    private final Map<Key, Deque<WeakReference<Hold>>> holds = new ConcurrentHashMap<>();

    void add(Key key, WeakReference<Hold> hold) {
        holds.compute(
                key,
                (k, known) -> {
                    var all = known == null ? new ArrayDeque<WeakReference<Hold>>(2) : known;
                    all.addLast(hold);
                    return all;
                });
    }

    void remove(Key key, WeakReference<Hold> hold) {
        holds.computeIfPresent(
                key,
                (k, all) -> {
                    all.remove(hold);
                    return all.isEmpty() ? null : all;
                });
    }

    /** Returns the newest valid hold; null if there is none. */
    Hold newest(Key key) {
        Hold[] found = new Hold[1];
        holds.computeIfPresent(
                key,
                (k, all) -> {
                    found[0] = newest(all.descendingIterator());
                    return all;
                });
        return found[0];
    }

    private static Hold newest(Iterator<WeakReference<Hold>> all) {
        while (all.hasNext()) {
            Hold hold = all.next().get();
            if (hold != null && hold.isValid()) {
                return hold;
            }
        }
        return null;
    }
}
