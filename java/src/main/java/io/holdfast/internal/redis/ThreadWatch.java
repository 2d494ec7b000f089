package io.holdfast.internal.redis;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Handle;
import io.holdfast.internal.core.Log;
import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner.Cleanable;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Warns when a thread ends without an {@link HoldfastLock#unlock()} that no other thread can make.
 *
 * <p>A thread drops its thread-local values when it ends, even if something still refers to the
 * thread. The owner is such a value: when it is collected, the thread has ended.
 */
final class ThreadWatch {
    private final Handle client;
    /** For cleaning at the close: else the cleaner would keep them, and this class. */
    private final Set<Cleanable> watched = ConcurrentHashMap.newKeySet();

    ThreadWatch(Handle client) {
        this.client = client;
    }

    void watch(Thread thread, byte[] owner) {
        String name = thread.getName();
        byte[] copy = owner.clone();
        Cleanable[] self = new Cleanable[1];
        self[0] =
                Handle.CLEANER.register(
                        owner,
                        () -> {
                            warn(name, copy);
                            watched.remove(self[0]);
                        });
        watched.add(self[0]);
        if (client.isClosed()) {
            close();
        }
    }

    private void warn(String thread, byte[] owner) {
        byte[] lock = client.call(pointer -> Core.hf_client_kept(pointer, owner));
        if (lock != null) {
            Log.log(
                    Level.WARNING,
                    "thread \"{0}\" ended while it held RedisLock[{1}], as {2}: no other thread"
                            + " can unlock() it. If it is renewed, that goes on until its"
                            + " maxHold; forceUnlock() ends it",
                    thread,
                    Bytes.text(lock),
                    Bytes.text(owner));
        }
    }

    /** Ends all watches, because the client is closed. */
    void close() {
        watched.forEach(Cleanable::clean);
    }
}
