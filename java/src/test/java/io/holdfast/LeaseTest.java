package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
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
        HoldfastLock brief = client.lock(name, BRIEF.owner("me"));
        brief.lock();
        try (Hold hold = brief.acquire()) {
            Watch watch = new Watch(hold);
            until(() -> client.stats().all().renewed() >= 8); // each of both, four times
            hold.check();
            assertFalse(stranger.tryLock());
            assertEquals(1, brief.getHoldCount());
            assertFalse(watch.loss.isDone());
            assertEquals(Optional.empty(), hold.lossCause());
        }
        brief.unlock();
        assertFalse(redis.exists(name));
    }

    @Test
    void aLeaseOfOneAcquireIsRenewedAsThoseOfItsLock() throws Exception {
        Duration lease = Duration.ofMillis(300);
        HoldfastLock expiring = client.lock(name, LockOptions.defaults().renew(false));
        expiring.lock(lease);
        assertTrue(redis.pttl(name) <= 300);
        assertTrue(stranger.tryLock(LONG, lease));
        assertTrue(redis.pttl(name) <= 300);
        LockLostException lost = assertThrows(LockLostException.class, expiring::unlock);
        assertTrue(lost.getMessage().contains("renew is off"), lost.getMessage());
        assertFalse(expiring.tryLock(Duration.ofMillis(900), lease));
        stranger.unlock();
        assertTrue(lock.tryLock(Duration.ZERO, lease));
        assertTrue(lock.tryLock(Duration.ofSeconds(-1), lease));
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
            assertTrue(secondsSince(start) > 0.65);
            assertInTime(start);
            watch.awaitLoss(LossCause.EXPIRED);
            next.check();
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> client.lock(name, LockOptions.defaults().neverExpires().maxHold(SECOND)));
        assertThrows(IllegalArgumentException.class, () -> BRIEF.maxHold(Duration.ZERO));
    }

    @Test
    void aThreadThatEndsHoldingKeepsTheLockUntilTheClientIsClosed() throws Exception {
        try (HoldfastClient other = Holdfast.connect(url())) {
            HoldfastLock there = other.lock(name, BRIEF);
            Async.elsewhere(() -> there.lock());
            until(() -> other.stats().all().renewed() >= 4); // for longer than its lease
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
        Watch watch = new Watch(client.lock(name, BRIEF).acquire());
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
            Watch watch = new Watch(other.lock(name, BRIEF).acquire());
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
