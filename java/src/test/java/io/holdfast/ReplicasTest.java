package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** A server without replicas: who asks for one is told that there is none, and holds nothing. */
final class ReplicasTest extends RedisTest {
    private static final LockOptions PICKY =
            LockOptions.defaults().replicas(1, Duration.ofMillis(100));

    private void assertTooFew(Executable use) {
        long start = System.nanoTime();
        LockNotReplicatedException told = assertThrows(LockNotReplicatedException.class, use);
        assertEquals(0, told.reached());
        assertTrue(secondsSince(start) > 0.09, told.toString());
        assertInTime(start);
        assertFalse(redis.exists(name));
    }

    @Test
    void tooFewReplicasAreToldOf() {
        HoldfastLock picky = client.lock(name, PICKY);
        assertTooFew(picky::lock);
        assertTooFew(picky::tryLock);
        assertTooFew(() -> picky.acquire(SECOND));
        assertThrows(LockNotHeldException.class, picky::unlock);
        assertTrue(lock.tryLock());
        lock.unlock();
    }

    @Test
    void theUrlHasTheNumberOfLocksThatNameNone() {
        try (HoldfastClient picky = Holdfast.connect(url() + "?replicas=2")) {
            HoldfastLock brief =
                    picky.lock(name, LockOptions.defaults().lease(Duration.ofSeconds(9)));
            assertTooFew(brief::acquire);
        }
    }

    /** H141: no exception means that it holds the lock. */
    @Test
    void aLeaseThatEndsBeforeReplicasAnswerIsNoLock() throws Exception {
        try (RedisServer server = RedisServer.start();
                HoldfastClient own = server.connect()) {
            HoldfastLock brief = own.lock(name, PICKY.lease(Duration.ofMillis(300)));
            assertThrows(LockNotReplicatedException.class, brief::tryLock);
            server.stall();
            Async<Object> locking =
                    Async.start(() -> assertThrows(RuntimeException.class, brief::lock));
            Async<Object> acquiring =
                    Async.start(() -> assertThrows(RuntimeException.class, brief::acquire));
            Thread.sleep(600);
            server.resume();
            locking.get();
            acquiring.get();
        }
    }

    @Test
    void aFutureIsToldOfTooFewReplicas() throws Exception {
        CompletableFuture<Hold> future = client.lock(name, PICKY).acquireAsync(SECOND);
        ExecutionException told =
                assertThrows(ExecutionException.class, () -> future.get(10, TimeUnit.SECONDS));
        assertEquals(
                0, assertInstanceOf(LockNotReplicatedException.class, told.getCause()).reached());
        assertFalse(redis.exists(name));
    }

    @Test
    void whoIsHandedTheLockWithoutReplicasHandsItOn() throws Exception {
        lock.lock();
        Async<?> waiter =
                Async.start(
                        () ->
                                assertThrows(
                                        LockNotReplicatedException.class,
                                        () -> client.lock(name, PICKY).acquire(LONG)));
        Async.until(() -> queued() == 1);
        lock.unlock();
        waiter.get();
        assertFalse(redis.exists(name));
    }

    @Test
    void wrongReplicasAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> PICKY.replicas(-1));
        assertThrows(IllegalArgumentException.class, () -> PICKY.replicas(1, Duration.ZERO));
        LockOptions slow = PICKY.lease(SECOND).replicas(1, SECOND);
        assertThrows(IllegalArgumentException.class, () -> client.lock(name, slow));
    }
}
