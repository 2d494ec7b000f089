package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.testing.InMemoryHoldfast;
import io.holdfast.testing.Trouble;
import io.holdfast.testing.Trouble.Kind;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** Trouble by a seed, in memory and on a real server. */
final class TroubleTest extends RedisTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    /** The first trouble of a kind. */
    private static Hold struck(Trouble trouble, String name) throws Exception {
        for (;;) {
            Hold hold = trouble.client().lock(name).acquire(LONG);
            if (!trouble.made().isEmpty()) {
                return hold;
            }
            hold.close();
        }
    }

    private void allKinds(HoldfastClient client) throws Exception {
        Hold lost = struck(new Trouble(client, 1, Kind.LOST), name);
        until(() -> !client.lock(name).isLocked());
        assertThrows(LockLostException.class, lost::close);

        Trouble thief = new Trouble(client, 1, Kind.STOLEN);
        AtomicLong greater = new AtomicLong();
        thief.onStolen((stolen, fence) -> greater.set(fence));
        Hold first = struck(thief, name);
        until(() -> greater.get() > 0);
        assertTrue(greater.get() > first.fence());
        assertThrows(LockLostException.class, first::close);

        Trouble unknown = new Trouble(client, 1, Kind.UNKNOWN);
        assertThrows(LockUnknownException.class, () -> struck(unknown, name));
        client.lock(name).acquireAsync(LONG).join().close(); // it stayed held for a moment

        Trouble outage = new Trouble(client, 1, Kind.OUTAGE);
        assertThrows(ConnectionFailedException.class, () -> struck(outage, name));
        assertThrows(ConnectionFailedException.class, () -> outage.client().lock(name).acquire());

        struck(new Trouble(client, 1, Kind.LATE), name).close();
    }

    @Test
    void itIsMadeOnARealServer() throws Exception {
        allKinds(client);
    }

    @Test
    void itIsMadeInMemoryAndTheSameAgainByItsSeed() throws Exception {
        try (HoldfastClient memory = new InMemoryHoldfast().connect()) {
            allKinds(memory);
            assertEquals(late(memory), late(memory));
        }
    }

    private List<Kind> late(HoldfastClient memory) throws Exception {
        Trouble trouble = new Trouble(memory, 7, Kind.LATE);
        for (int i = 0; i < 20; i++) {
            trouble.client().lock(name).acquire(LONG).close();
        }
        assertTrue(trouble.made().size() > 1 && trouble.made().size() < 20);
        return trouble.made();
    }

    @Test
    void severalLocksAreAcquiredThroughIt() throws Exception {
        HoldfastClient troubled = new Trouble(client, 1, Kind.LATE).client();
        HoldfastLock second = troubled.lock(name + 2);
        try (Holds holds = troubled.locksAll(List.of(lock, second.shared())).acquire(LONG)) {
            assertTrue(holds.isValid());
        }
        try (Holds holds = troubled.locksAll(name, name + 2).acquire(LONG)) {
            assertEquals(2, holds.fences().size());
        }
    }

    /** A client whose acquires are interrupted when they have their hold. */
    private static Object interrupting(Class<?> face, Object inner) {
        return java.lang.reflect.Proxy.newProxyInstance(
                face.getClassLoader(),
                new Class<?>[] {face},
                (proxy, method, arguments) -> {
                    Object answer = method.invoke(inner, arguments);
                    if (answer instanceof Hold) {
                        Thread.currentThread().interrupt();
                    }
                    return answer instanceof HoldfastLock lock
                            ? interrupting(HoldfastLock.class, lock)
                            : answer;
                });
    }

    @Test
    void anInterruptDuringALateAcquireLeavesNothingBehind() {
        HoldfastClient interrupted =
                (HoldfastClient) interrupting(HoldfastClient.class, client);
        Trouble trouble = new Trouble(interrupted, 1, Kind.LATE);
        assertThrows(
                InterruptedException.class,
                () -> {
                    for (; ; ) {
                        trouble.client().lock(name).acquire(LONG).close();
                        Thread.interrupted(); // it was not struck
                    }
                });
        assertEquals(List.of(Kind.LATE), trouble.made());
        assertFalse(client.lock(name).isLocked());
    }
}
