package io.holdfast.internal.memory;

import io.holdfast.internal.core.Bytes;
import java.nio.ByteBuffer;

/** The owners and counts of a client in memory. The mutex of its server guards it. */
final class MemoryBook {
    final MemoryServer server;
    final MemoryCounts counts = new MemoryCounts();
    private final ThreadLocal<ByteBuffer> threads = ThreadLocal.withInitial(() -> owner('t'));
    private final ThreadLocal<ByteBuffer> holders = ThreadLocal.withInitial(() -> owner('t'));
    private boolean closed;

    MemoryBook(MemoryServer server) {
        this.server = server;
    }

    /** Returns the calling thread as an owner. */
    ByteBuffer thread() {
        return threads.get();
    }

    /** Returns the calling thread as the owner of a Hold, which nests in none of its other holds. */
    ByteBuffer holder() {
        return holders.get();
    }

    /** Returns a new owner. */
    ByteBuffer owner(char kind) {
        long number = server.locked(server::nextSerial);
        String owner = "in-memory/" + ProcessHandle.current().pid() + ":" + kind + number;
        return ByteBuffer.wrap(Bytes.of(owner));
    }

    void close() {
        closed = true;
    }

    void checkOpen() {
        if (closed) {
            throw MemoryServer.closed();
        }
    }
}
