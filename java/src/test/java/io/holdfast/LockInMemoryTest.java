package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.testing.InMemoryHoldfast;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** The client for tests without a server: as a lock must be, and its losses on demand. */
final class LockInMemoryTest extends LockContract {
    private final InMemoryHoldfast redis = new InMemoryHoldfast();

    @Override
    HoldfastClient connect() {
        return redis.connect();
    }

    @ParameterizedTest
    @EnumSource
    void aLossComesWhenItIsAskedFor(LossCause cause) throws Exception {
        assertFalse(redis.lose(name, cause), "free");
        Hold hold = lock.acquire();
        AtomicReference<Hold> told = new AtomicReference<>();
        hold.onLost(told::set);
        Async<Long> waiting = Async.start(() -> stranger.acquire(LONG).fence());
        until(() -> lock.inspect().waiters() == 1);
        assertTrue(redis.lose(name, cause));
        assertFalse(hold.isValid());
        assertEquals(Optional.of(cause), hold.lossCause());
        assertTrue(waiting.get() > hold.fence());
        until(() -> told.get() == hold);
        assertThrowsExactly(LockLostException.class, hold::close);
        assertThrowsExactly(LockNotHeldException.class, hold::release);
    }

    @Test
    void aLockIsServedInTheOrderOfArrival() throws Exception {
        List<CompletableFuture<Hold>> all = new ArrayList<>();
        Hold first = lock.acquire();
        for (int i = 0; i < 5; i++) {
            all.add(lock.acquireAsync());
        }
        CompletableFuture<Hold> canceled = all.remove(2);
        assertTrue(canceled.cancel(true));
        assertEquals(4, client.stats().all().waiting());
        first.close();
        for (CompletableFuture<Hold> each : all) {
            Hold hold = each.get(20, TimeUnit.SECONDS);
            assertEquals(1, client.stats().all().held());
            hold.close();
        }
        assertFalse(lock.isLocked());
        assertEquals(5, client.stats().all().acquired());
        assertEquals(4, client.stats().all().queued());
        assertEquals(1, client.stats().all().refused().get(RefusalCause.CANCELLED));
    }

    @Test
    void aClosedClientReleasesAndRefuses() throws Exception {
        HoldfastClient other = connect();
        Hold hold = other.lock(name).acquire();
        Async<Hold> waiting = Async.start(() -> other.lock(name + 2).acquire());
        waiting.get();
        CompletableFuture<Hold> queued = other.lock(name).acquireAsync();
        other.close();
        assertThrowsExactly(ClosedException.class, hold::check);
        assertThrowsExactly(ClosedException.class, hold::close);
        assertThrowsExactly(ClosedException.class, () -> other.lock(name));
        assertThrows(Exception.class, () -> queued.get(20, TimeUnit.SECONDS));
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void aRenewedHoldEndsWithItsLongestTime() throws Exception {
        LockOptions options =
                LockOptions.defaults()
                        .lease(Duration.ofMillis(50))
                        .renew(true)
                        .maxHold(Duration.ofMillis(100));
        long start = System.nanoTime(); // a pause after the acquire would count for nothing
        Hold hold = client.lock(name, options).acquire();
        assertTrue(stranger.tryLock(10, TimeUnit.SECONDS));
        assertTrue(secondsSince(start) > 0.09);
        assertEquals(Optional.of(LossCause.EXPIRED), hold.lossCause());
    }

    @Test
    void anInterruptEndsAWait() throws Exception {
        lock.lock();
        Async<Object> waiting =
                Async.start(() -> assertThrows(InterruptedException.class, stranger::acquire));
        until(() -> lock.inspect().waiters() == 1);
        waiting.thread.interrupt();
        waiting.get();
        assertEquals(0, lock.inspect().waiters());
    }
}
