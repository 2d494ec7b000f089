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

import io.holdfast.LockNotHeldException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.LockRegistry;

/** Spring Integration's locks in two applications. */
final class LockRegistryTest {
    private final ConfigurableApplicationContext one = start(Map.of());
    private final ConfigurableApplicationContext other =
            start(Map.of("holdfast.lock-registry.prefix", "spring-integration:"));
    private String key;

    @BeforeEach
    void name() {
        key = unique();
    }

    @AfterEach
    void end() {
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

    /** Counts those who lead. */
    private LockRegistryLeaderInitiator candidate(ConfigurableApplicationContext application) {
        var candidate =
                new DefaultCandidate(application.getId(), key) {
                    @Override
                    public void onGranted(Context context) {}
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
        Thread.sleep(100);
        assertFalse(second.getContext().isLeader());
        first.stop();
        until(() -> second.getContext().isLeader());
        second.stop();
        assertEquals(0, client(one).lock("spring-integration:" + key).inspect().waiters());
    }
}
