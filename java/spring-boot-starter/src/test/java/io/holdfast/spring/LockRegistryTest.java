package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static io.holdfast.spring.Application.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.HoldfastLock;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.LockRegistry;

/** Spring Integration's locks in two applications. */
final class LockRegistryTest {
    private static ConfigurableApplicationContext one;
    private static ConfigurableApplicationContext other;
    private final List<String> told = new CopyOnWriteArrayList<>();
    private String key;

    @BeforeEach
    void name() {
        key = unique();
    }

    @BeforeAll
    static void begin() {
        one = start(Map.of());
        other = start(Map.of("holdfast.lock-registry.prefix", "spring-integration:"));
    }

    @AfterAll
    static void end() {
        one.close();
        other.close();
    }

    private static Lock lock(ConfigurableApplicationContext application, Object key) {
        return application.getBean(LockRegistry.class).obtain(key);
    }

    @Test
    void theyExcludeEachOther() throws Exception {
        Lock mine = lock(one, key);
        mine.lock();
        mine.lock(); // again
        assertTrue(client(one).lock("spring-integration:" + key).isLocked());
        Lock theirs = lock(other, key);
        assertFalse(theirs.tryLock());
        assertFalse(theirs.tryLock(20, TimeUnit.MILLISECONDS));
        assertThrows(LockNotHeldException.class, theirs::unlock);
        mine.unlock();
        assertFalse(theirs.tryLock());
        lock(one, key).unlock(); // through another object of the same key
        assertTrue(theirs.tryLock());
        theirs.unlock();
    }

    @Test
    void anAcquireThroughAnotherObjectOfTheKeyNests() {
        lock(one, key).lock();
        long fence = there(one).fence();
        assertTrue(lock(one, key).tryLock());
        assertEquals(fence, there(one).fence());
        lock(one, key).unlock();
        assertFalse(lock(other, key).tryLock());
        lock(one, key).unlock();
        assertFalse(there(one).isLocked());
    }

    @Test
    void anInterruptEndsTheWaitAndThereAreNoConditions() throws Exception {
        Lock mine = lock(one, key);
        CountDownLatch started = new CountDownLatch(1);
        mine.lock();
        FutureTask<Thread> waiting =
                elsewhere(
                        () -> {
                            started.countDown();
                            assertThrows(
                                    InterruptedException.class,
                                    () -> {
                                        Thread.currentThread().interrupt();
                                        lock(other, key).lockInterruptibly();
                                    });
                            return Thread.currentThread();
                        });
        started.await();
        join(waiting);
        mine.unlock();
        assertThrows(UnsupportedOperationException.class, mine::newCondition);
    }

    @Test
    void theRegistryDoesItUnderTheLock() throws Exception {
        LockRegistry registry = one.getBean(LockRegistry.class);
        assertTrue(
                registry.<Boolean, Exception>executeLocked(
                        key, () -> client(one).lock("spring-integration:" + key).isLocked()));
        lock(other, key).lock();
        assertThrows(
                java.util.concurrent.TimeoutException.class,
                () -> registry.executeLocked(key, Duration.ofMillis(20), () -> {}));
        lock(other, key).unlock();
    }

    /** The lock as the library knows it. */
    private HoldfastLock there(ConfigurableApplicationContext application) {
        return client(application).lock("spring-integration:" + key);
    }

    @Test
    void oneThatWasLostIsToldByTheNextAcquireOfItsThread() throws Exception {
        Lock mine = lock(one, key);
        mine.lock();
        assertTrue(there(other).forceUnlock());
        assertThrows(LockLostException.class, mine::tryLock);
        assertFalse(there(other).isLocked());
        assertThrows(LockNotHeldException.class, mine::unlock); // it is over
        mine.lock();
        mine.lock();
        assertTrue(there(other).forceUnlock());
        assertThrows(LockLostException.class, () -> mine.tryLock(1, TimeUnit.SECONDS));
        assertFalse(there(other).isLocked());
        assertThrows(LockLostException.class, mine::unlock);
        assertTrue(mine.tryLock());
        mine.unlock();
    }

    @Test
    void oneThatAnotherHasSinceIsBusyAndThenToldAsLost() {
        Lock mine = lock(one, key);
        mine.lock();
        assertTrue(there(other).forceUnlock());
        there(other).lock();
        assertFalse(mine.tryLock()); // which a leader takes for the loss, and never unlocks
        there(other).unlock();
        assertThrows(LockLostException.class, mine::lockInterruptibly);
        assertTrue(mine.tryLock());
        mine.unlock();
        assertFalse(there(other).isLocked());
    }

    @Test
    void aLeaseThatIsGivenIsRenewedAllTheSame() throws Exception {
        try (var brief = start(Map.of("holdfast.lock.lease", "4s"))) {
            Lock mine = lock(brief, key);
            mine.lock();
            until(() -> client(brief).stats().all().renewed() > 0);
            assertTrue(there(brief).isLocked());
            mine.unlock();
        }
    }

    /** Tells what becomes of it. */
    private LockRegistryLeaderInitiator candidate(ConfigurableApplicationContext application) {
        var candidate =
                new DefaultCandidate(application.getId(), key) {
                    @Override
                    public void onGranted(Context context) {
                        told.add("granted");
                    }

                    @Override
                    public void onRevoked(Context context) {
                        told.add("revoked");
                    }
                };
        var initiator =
                new LockRegistryLeaderInitiator(application.getBean(LockRegistry.class), candidate);
        initiator.setHeartBeatMillis(20);
        initiator.setBusyWaitMillis(5);
        initiator.start();
        return initiator;
    }

    @Test
    void oneOfTwoLeadsAndThenTheOther() throws Exception {
        var first = candidate(one);
        until(() -> first.getContext().isLeader());
        var second = candidate(other);
        until(() -> there(one).inspect().waiters() == 1);
        assertFalse(second.getContext().isLeader());
        first.stop();
        until(() -> second.getContext().isLeader());
        second.stop();
        assertEquals(0, there(one).inspect().waiters());
    }

    @Test
    void aLeaderWhoseLockWasTakenAwayIsToldAndLeadsAgainWithAnother() throws Exception {
        var leader = candidate(one);
        until(() -> leader.getContext().isLeader());
        assertTrue(there(other).forceUnlock());
        until(() -> told.size() == 3 && leader.getContext().isLeader());
        assertEquals(List.of("granted", "revoked", "granted"), told);
        assertTrue(there(other).isLocked());
        leader.stop();
        until(() -> !there(other).isLocked());
    }
}
