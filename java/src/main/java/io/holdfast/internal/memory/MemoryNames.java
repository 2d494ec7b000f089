package io.holdfast.internal.memory;

import io.holdfast.LossCause;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/** All locks in one memory, by name. The mutex of its server guards them. */
public final class MemoryNames {
    final MemoryServer server = new MemoryServer();
    private final Map<ByteBuffer, MemoryState> states = new HashMap<>();

    MemoryState state(byte[] name) {
        return states.computeIfAbsent(ByteBuffer.wrap(name), key -> new MemoryState(server));
    }

    Set<ByteBuffer> names() {
        return Set.copyOf(states.keySet());
    }

    /** Returns the holds that a client has in hand. */
    Stream<MemoryHold> holds(MemoryBook book) {
        return states.values().stream().flatMap(state -> state.holds(book));
    }

    /** Returns the waiting acquires of a client. */
    Stream<MemoryWaiter> waiters(MemoryBook book) {
        return states.values().stream().flatMap(state -> state.waiters(book));
    }

    /** Removes acquires from their queues. */
    void forget(List<MemoryWaiter> waiters) {
        states.values().forEach(state -> state.queue.removeAll(waiters));
    }

    /** Takes the lock from its holders; false: it had none. */
    public boolean lose(byte[] name, LossCause cause) {
        return server.locked(() -> state(name).lose(cause));
    }
}
