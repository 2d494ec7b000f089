package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.params.SetParams;

/** How long a lock is held, and how its holder learns that it is not any more. */
final class LeaseTest extends RedisTest {
    /** Is renewed soon, and no pause of the machine ends it. */
    private static final LockOptions RENEWED =
            LockOptions.defaults().lease(Duration.ofSeconds(6)).renew(true);

    /** Ends soon. */
    private static final LockOptions BRIEF =
            LockOptions.defaults().lease(Duration.ofMillis(600)).renew(true);

    /** Holds, and tells of the loss in the way of onLost(). */
    private static final class Watch {
        final Hold hold;
        final CompletableFuture<Hold> loss = new CompletableFuture<>();
        final AtomicInteger times = new AtomicInteger();

        Watch(Hold hold) {
            this.hold = hold;
            hold.onLost(
                    lost -> {
                        times.incrementAndGet();
                        loss.complete(lost);
                    });
        }

        void awaitLoss(LossCause cause) throws Exception {
            assertSame(hold, loss.get(10, TimeUnit.SECONDS));
            assertEquals(Optional.of(cause), hold.lossCause());
            assertFalse(hold.isValid());
            assertThrows(LockLostException.class, hold::close);
            assertEquals(Optional.of(cause), hold.lossCause());
            assertEquals(1, times.get());
        }
    }

    // ---------------------------------------------------------------- Renewal

    @Test
    void aRenewedHoldOutlivesItsLease() throws Exception {
        HoldfastLock renewed = client.lock(name, RENEWED.owner("me"));
        renewed.lock();
        try (Hold hold = renewed.acquire()) {
            Watch watch = new Watch(hold);
            long[] left = {redis.pttl(name)};
            until(
                    () -> { // what is left grows
                        long before = left[0];
                        left[0] = redis.pttl(name);
                        return left[0] > before;
                    });
            until(() -> client.stats().all().renewed() >= 2); // each of both
            hold.check();
            assertFalse(stranger.tryLock());
            assertEquals(1, renewed.getHoldCount());
            assertFalse(watch.loss.isDone());
            assertEquals(Optional.empty(), hold.lossCause());
        }
        renewed.unlock();
        assertFalse(redis.exists(name));
    }

    @Test
    void aLeaseOfOneAcquireIsRenewedAsThoseOfItsLock() throws Exception {
        Duration lease = Duration.ofMillis(300);
        HoldfastLock expiring = client.lock(name, LockOptions.defaults().renew(false));
        expiring.lock(lease);
        assertTrue(redis.pttl(name) <= 300);
        Duration longer = Duration.ofSeconds(6);
        assertTrue(stranger.tryLock(LONG, longer));
        assertTrue(redis.pttl(name) <= 6_000);
        LockLostException lost = assertThrows(LockLostException.class, expiring::unlock);
        assertTrue(lost.getMessage().contains("renew is off"), lost.getMessage());
        until(() -> client.stats().all().renewed() >= 1);
        assertFalse(expiring.tryLock(Duration.ofMillis(1), lease));
        stranger.unlock();
        assertTrue(lock.tryLock(Duration.ZERO, longer));
        assertTrue(lock.tryLock(Duration.ofSeconds(-1), longer));
        assertThrows(
                IllegalArgumentException.class, () -> lock.tryLock(Duration.ZERO, Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> lock.lock(Duration.ofNanos(-1)));
        assertThrows(IllegalArgumentException.class, () -> lock.lock(Duration.ofMillis(9)));
    }

    @Test
    void noHoldIsRenewedBeyondMaxHold() throws Exception {
        HoldfastLock capped = client.lock(name, BRIEF.maxHold(Duration.ofMillis(700)));
        long start = System.nanoTime();
        Watch watch = new Watch(capped.acquire());
        try (Hold next = stranger.acquire(LONG)) {
            assertTrue(secondsSince(start) > 0.55);
            assertInTime(start);
            assertSame(watch.hold, watch.loss.get(10, TimeUnit.SECONDS));
            // Or unreachable, if the machine stood still at a renewal.
            assertNotEquals(Optional.of(LossCause.GONE), watch.hold.lossCause());
            next.check();
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> client.lock(name, LockOptions.defaults().neverExpires().maxHold(SECOND)));
        assertThrows(IllegalArgumentException.class, () -> BRIEF.maxHold(Duration.ZERO));
    }

    @Test
    void aThreadThatEndsHoldingKeepsTheLockUntilTheClientIsClosed() throws Exception {
        try (HoldfastClient other = SERVER.connect()) {
            HoldfastLock there = other.lock(name, RENEWED);
            Async.elsewhere(() -> there.lock());
            until(() -> other.stats().all().renewed() >= 1);
            assertFalse(stranger.tryLock());
        }
        assertTrue(stranger.tryLock());
    }

    @Test
    void aDroppedHoldIsNotRenewed() throws Exception {
        drop(client.lock(name, BRIEF));
        Async<Boolean> waiting = Async.start(() -> stranger.tryLock(10, TimeUnit.SECONDS));
        while (waiting.isRunning()) {
            System.gc();
            Thread.sleep(10);
        }
        assertTrue(waiting.get());
    }

    private static void drop(HoldfastLock lock) throws Exception {
        lock.acquire().onLost(lost -> fail("it is not there to be told"));
    }

    // ------------------------------------------------------------------- Loss

    @Test
    void theEndOfALeaseIsTold() throws Exception {
        new Watch(client.lock(name, BRIEF.renew(false)).acquire()).awaitLoss(LossCause.EXPIRED);
    }

    @Test
    void aBrokenLockIsToldByItsNextRenewal() throws Exception {
        Watch watch = new Watch(client.lock(name, RENEWED).acquire());
        assertTrue(stranger.forceUnlock());
        long start = System.nanoTime();
        watch.awaitLoss(LossCause.GONE);
        assertInTime(start);
    }

    @Test
    void aKeyThatWasTakenAwayIsToldByACheck() throws Exception {
        Watch watch = new Watch(lock.acquire());
        redis.set(name, "token");
        assertThrows(LockLostException.class, watch.hold::check);
        watch.awaitLoss(LossCause.GONE);
        assertEquals("token", redis.get(name));
    }

    @Test
    void aServerThatIsGoneIsTold() throws Exception {
        try (RedisServer server = RedisServer.start();
                HoldfastClient other = Holdfast.connect(server.tcpUrl)) {
            LockOptions two = LockOptions.defaults().lease(Duration.ofSeconds(2)).renew(true);
            Watch watch = new Watch(other.lock(name, two).acquire());
            server.stall();
            assertSame(watch.hold, watch.loss.get(10, TimeUnit.SECONDS));
            assertEquals(Optional.of(LossCause.UNREACHABLE), watch.hold.lossCause());
            server.resume();
        }
    }

    @Test
    void aLossOfBeforeIsToldAtOnceAndAReleaseIsNoLoss() throws Exception {
        Hold hold = lock.acquire();
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        new Watch(hold).awaitLoss(LossCause.GONE);
        CompletableFuture<Hold> late = new CompletableFuture<>();
        hold.onLost(late::complete);
        assertSame(hold, late.get(10, TimeUnit.SECONDS));

        Hold released = lock.acquire();
        Watch watch = new Watch(released);
        released.close();
        released.onLost(lost -> watch.times.incrementAndGet());
        redis.del(name);
        Thread.sleep(20); // nothing happens that could be waited for
        assertEquals(0, watch.times.get());
        assertEquals(Optional.empty(), released.lossCause());
    }

    @Test
    void aLossThatTheReleaseFindsHasItsCause() throws Exception {
        Hold hold = lock.acquire();
        redis.del(name);
        assertThrows(LockLostException.class, hold::close);
        assertEquals(Optional.of(LossCause.GONE), hold.lossCause());

        Hold brief = client.lock(name, BRIEF.renew(false)).acquire();
        until(() -> !brief.isValid());
        assertThrows(LockLostException.class, brief::release);
        assertEquals(Optional.of(LossCause.EXPIRED), brief.lossCause());
    }

    @Test
    void whatOnLostThrowsHarmsNobody() throws Exception {
        Hold hold = lock.acquire();
        List<Thread> threads = new ArrayList<>();
        hold.onLost(
                lost -> {
                    threads.add(Thread.currentThread());
                    throw new IllegalStateException("expected by this test");
                });
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        new Watch(hold).awaitLoss(LossCause.GONE);
        until(() -> !threads.isEmpty());
        assertTrue(threads.get(0).getName().startsWith("holdfast-actions"));
        new Watch(client.lock(name, BRIEF.renew(false)).acquire()).awaitLoss(LossCause.EXPIRED);
        assertThrows(NullPointerException.class, () -> hold.onLost(null));
    }

    @Test
    void theBlocksOwnExceptionComesFirst() {
        IllegalStateException thrown =
                assertThrows(
                        IllegalStateException.class,
                        () -> {
                            try (Hold hold = lock.acquire()) {
                                redis.del(name);
                                throw new IllegalStateException();
                            }
                        });
        assertInstanceOf(LockLostException.class, thrown.getSuppressed()[0]);
    }

    // ------------------------------------------------------------------- Heal

    @Test
    void aForeignLockWithoutAnEndIsHealedIfAskedFor() throws Exception {
        redis.set(name, "token");
        assertFalse(lock.tryLock(50, TimeUnit.MILLISECONDS));
        assertEquals(-1, redis.pttl(name));
        HoldfastLock healing = client.lock(name, BRIEF.heal(true));
        assertTrue(healing.tryLock(10, TimeUnit.SECONDS));
        healing.unlock();

        redis.set(name, "token", SetParams.setParams().ex(60));
        assertFalse(healing.tryLock(50, TimeUnit.MILLISECONDS));
        assertTrue(redis.pttl(name) > 50_000);
    }
}
