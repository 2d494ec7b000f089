package io.holdfast.internal.memory;

import io.holdfast.LossCause;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/** All locks in one memory, by name. The mutex of its server guards it. */
public final class MemoryNames {
    final MemoryServer server = new MemoryServer();
    private final Map<ByteBuffer, MemoryState> states = new HashMap<>();

    MemoryState state(byte[] name) {
        return states.computeIfAbsent(ByteBuffer.wrap(name), key -> new MemoryState(server));
    }

    Set<ByteBuffer> names() {
        return Set.copyOf(states.keySet());
    }

    /** The holds that a client has in hand. */
    Stream<MemoryHold> holds(MemoryBook book) {
        return states.values().stream().flatMap(state -> state.holds(book));
    }

    /** The acquires of a client that wait. */
    Stream<MemoryWaiter> waiters(MemoryBook book) {
        return states.values().stream().flatMap(state -> state.waiters(book));
    }

    /** Takes acquires out of their queues. */
    void forget(List<MemoryWaiter> waiters) {
        states.values().forEach(state -> state.queue.removeAll(waiters));
    }

    /** Whether the lock was taken away from a holder. */
    public boolean lose(byte[] name, LossCause cause) {
        return server.locked(() -> state(name).lose(cause));
    }
}
