package io.holdfast;

import java.lang.System.Logger.Level;
import java.lang.ref.Cleaner.Cleanable;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Warns of threads that end while they hold a lock for {@link RedisLock#unlock()} to release, which
 * nobody else can.
 *
 * <p>A thread forgets its thread-local values when it ends, whoever still knows the thread. So it
 * has ended when its owner, which is such a value, is collected.
 */
final class ThreadWatch {
    private final Handle client;
    /** What would still be known to the cleaner, and keep this class loaded, after the client. */
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
            Holdfast.LOG.log(
                    Level.WARNING,
                    "thread \"{0}\" ended while it held RedisLock[{1}], as {2}: nobody can"
                            + " unlock() it. It is renewed until its maxHold, if it is renewed at"
                            + " all; forceUnlock() ends it",
                    thread,
                    Bytes.text(lock),
                    Bytes.text(owner));
        }
    }

    /** When the client is closed: there is nothing to warn of any more. */
    void close() {
        watched.forEach(Cleanable::clean);
    }
}
