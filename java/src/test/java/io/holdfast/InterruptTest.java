package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** Thread.interrupt() ends the waits that say so, and no others. */
final class InterruptTest extends RedisTest {
    enum Wait {
        LOCK_INTERRUPTIBLY {
            @Override
            void on(HoldfastLock lock) throws InterruptedException {
                lock.lockInterruptibly();
            }
        },
        TIMED_TRY_LOCK {
            @Override
            void on(HoldfastLock lock) throws InterruptedException {
                lock.tryLock(10, TimeUnit.SECONDS);
            }
        },
        ACQUIRE {
            @Override
            void on(HoldfastLock lock) throws InterruptedException {
                lock.acquire();
            }
        },
        TIMED_ACQUIRE {
            @Override
            void on(HoldfastLock lock) throws InterruptedException {
                lock.acquire(LONG);
            }
        };

        abstract void on(HoldfastLock lock) throws InterruptedException;
    }

    @AfterEach
    void clear() {
        Thread.interrupted();
    }

    @ParameterizedTest
    @EnumSource
    void anInterruptBeforeTheCallSendsNothing(Wait wait) {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> wait.on(lock));
        assertFalse(Thread.currentThread().isInterrupted());
        assertFalse(redis.exists(name));
    }

    @ParameterizedTest
    @EnumSource
    void anInterruptDuringTheWaitEndsItAndLeavesNothingBehind(Wait wait) throws Exception {
        lock.lock();
        for (int millis : new int[] {1, 20, 70}) {
            Async<Boolean> waiting =
                    Async.start(
                            () -> {
                                assertThrows(InterruptedException.class, () -> wait.on(stranger));
                                return Thread.currentThread().isInterrupted();
                            });
            Thread.sleep(millis); // at any moment
            assertTrue(waiting.isRunning());
            long start = System.nanoTime();
            waiting.thread.interrupt();
            assertFalse(waiting.get());
            assertInTime(start);
            Async.until(() -> queued() == 0);
        }
        lock.unlock();
        assertFalse(redis.exists(name));
    }

    @Test
    void aTryInVainTellsOfAnInterruptToo() throws Exception {
        lock.lock();
        Async<Boolean> trying =
                Async.start(
                        () -> {
                            Thread.currentThread().interrupt();
                            return stranger.tryLock(0, TimeUnit.SECONDS);
                        });
        assertThrows(InterruptedException.class, trying::get);
    }

    @Test
    void lockWaitsOnAndKeepsTheInterrupt() throws Exception {
        lock.lock();
        Async<Boolean> waiting =
                Async.start(
                        () -> {
                            stranger.lock();
                            return Thread.currentThread().isInterrupted();
                        });
        waiting.thread.interrupt();
        Thread.sleep(30); // nothing happens that could be waited for
        assertTrue(waiting.isRunning());
        lock.unlock();
        assertTrue(waiting.get());
    }

    @Test
    void tryLockAndUnlockAndCloseDoTheirWorkInAnInterruptedThread() throws Exception {
        Hold hold = lock.acquire();
        Thread.currentThread().interrupt();
        hold.check();
        hold.close();
        assertTrue(lock.tryLock());
        lock.lock();
        lock.unlock();
        lock.unlock();
        assertTrue(Thread.interrupted());
        assertFalse(redis.exists(name));
    }

    /** Of a lock that would stand for ever if it were not given back. */
    private static final LockOptions ENDLESS = LockOptions.defaults().neverExpires();

    @Test
    void anInterruptThatRacesTheGrantLeavesNothingBehind() throws Exception {
        int interrupted = 0;
        HoldfastLock endless = client.lock(name, ENDLESS);
        for (int i = 0; i < 100; i++) {
            boolean inHand = i % 2 == 0;
            endless.lock();
            Async<Boolean> victim =
                    Async.start(
                            () -> {
                                try {
                                    if (inHand) {
                                        endless.acquire(LONG).release();
                                    } else {
                                        endless.lockInterruptibly();
                                        endless.unlock();
                                    }
                                    return false;
                                } catch (InterruptedException e) {
                                    Async.until(() -> endless.getHoldCount() == 0);
                                    return true;
                                }
                            });
            Async.until(() -> queued() == 1);
            Async<Void> interrupting =
                    Async.start(
                            () -> {
                                long nanos = ThreadLocalRandom.current().nextLong(500_000);
                                for (long start = System.nanoTime(); ; ) {
                                    if (System.nanoTime() - start > nanos) {
                                        victim.thread.interrupt();
                                        return null;
                                    }
                                }
                            });
            endless.unlock();
            interrupting.get();
            interrupted += victim.get() ? 1 : 0;
            Async.until(() -> queued() == 0 && !redis.exists(name));
        }
        assertTrue(interrupted > 0, "none was interrupted");
    }

    @Test
    void aStormOfInterruptsLeavesNothingBehind() throws Exception {
        AtomicInteger entered = new AtomicInteger();
        AtomicInteger left = new AtomicInteger();
        AtomicInteger interrupted = new AtomicInteger();
        HoldfastLock endless = client.lock(name, ENDLESS);
        for (int i = 0; i < 25; i++) {
            List<Async<Void>> victims = new ArrayList<>();
            for (int j = 0; j < 4; j++) {
                victims.add(
                        Async.start(
                                () -> {
                                    try {
                                        for (;;) {
                                            endless.lockInterruptibly();
                                            entered.incrementAndGet();
                                            endless.unlock();
                                            left.incrementAndGet();
                                        }
                                    } catch (InterruptedException e) {
                                        interrupted.incrementAndGet();
                                        Async.until(() -> endless.getHoldCount() == 0);
                                    }
                                    return null;
                                }));
            }
            for (Async<Void> victim : victims) {
                Thread.sleep(0, ThreadLocalRandom.current().nextInt(900_000));
                victim.thread.interrupt();
            }
            for (Async<Void> victim : victims) {
                victim.get();
            }
        }
        assertEquals(100, interrupted.get());
        assertEquals(entered.get(), left.get());
        Async.until(() -> queued() == 0 && !redis.exists(name));
    }

    @Test
    void anInterruptInTheMiddleOfACommandGivesBackWhatItWon() throws Exception {
        try (RedisServer server = RedisServer.start();
                Jedis admin = server.look();
                HoldfastClient other = server.connect()) {
            HoldfastLock there = other.lock(name, ENDLESS);
            there.inspect();
            server.stall();
            Async<Object> waiting =
                    Async.start(
                            () -> assertThrows(InterruptedException.class, there::acquire));
            Async<Object> locking =
                    Async.start(
                            () ->
                                    assertThrows(
                                            InterruptedException.class, there::lockInterruptibly));
            Thread.sleep(50); // most likely it waits for its answer by now
            waiting.thread.interrupt();
            locking.thread.interrupt();
            waiting.get();
            locking.get();
            server.resume();
            Async.until(() -> !admin.exists(name));
        }
    }

    @Test
    void anInterruptIsAnsweredAtOnceAlsoWhileTheServerIsStalled() throws Exception {
        try (RedisServer server = RedisServer.start();
                Jedis admin = server.look();
                HoldfastClient other = Holdfast.connect(server.tcpUrl + PATIENT)) {
            HoldfastLock there = other.lock(name, ENDLESS); // free
            for (Wait wait : Wait.values()) {
                there.acquire(LONG).close();
                server.stall();
                Async<Boolean> waiting =
                        Async.start(
                                () -> {
                                    assertThrows(
                                            InterruptedException.class, () -> wait.on(there));
                                    return Thread.currentThread().isInterrupted();
                                });
                Thread.sleep(50); // at any moment
                assertTrue(waiting.isRunning());
                long start = System.nanoTime();
                waiting.thread.interrupt();
                assertFalse(waiting.get());
                assertInTime(start);
                server.resume();
            }
            there.acquire(LONG).close();
            Async.until(() -> !admin.exists(name));
        }
    }

    /** A request is given up after a time that is no answer at once. */
    private static final String PATIENT = "?connect_timeout=20&command_timeout=20";

    /** One that follows an answer at once, and so tries in native code. */
    @ParameterizedTest
    @EnumSource
    void anInterruptIsAnsweredAtOnceIfTheServerStallsInThatVeryRequest(Wait wait) throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other = Holdfast.connect(proxy.url() + PATIENT)) {
            HoldfastLock there = other.lock(name, ENDLESS);
            for (int i = 0; i < 4; i++) {
                Proxy.Way way = i % 2 == 0 ? Proxy.Way.REQUESTS : Proxy.Way.ANSWERS;
                Async<Boolean> waiting =
                        Async.start(
                                () -> {
                                    there.acquire().close();
                                    there.acquire().close();
                                    proxy.hold(way);
                                    assertThrows(InterruptedException.class, () -> wait.on(there));
                                    return Thread.currentThread().isInterrupted();
                                });
                proxy.awaitCaught();
                long start = System.nanoTime();
                waiting.thread.interrupt();
                assertFalse(waiting.get());
                assertInTime(start);
                proxy.letGo();
                Async.until(() -> queued() == 0 && !redis.exists(name));
            }
            there.acquire(LONG).close();
            Thread.sleep(20); // nothing comes that could be waited for
            assertFalse(redis.exists(name));
            assertEquals(0, other.stats().all().held());
            assertEquals(0, other.stats().all().failed().get(FailureCause.UNKNOWN));
        }
    }

    @ParameterizedTest
    @EnumSource
    void anInterruptIsAnsweredAtOnceWhileReplicasAreAwaited(Wait wait) throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other = Holdfast.connect(proxy.url() + PATIENT + "&replicas=1")) {
            HoldfastLock there = other.lock(name);
            lock.lock();
            Async<Boolean> waiting =
                    Async.start(
                            () -> {
                                assertThrows(InterruptedException.class, () -> wait.on(there));
                                return Thread.currentThread().isInterrupted();
                            });
            Async.until(() -> queued() == 1);
            proxy.hold(Proxy.Way.REQUESTS);
            lock.unlock();
            proxy.awaitCaught(); // the request that waits for replicas of the grant
            long start = System.nanoTime();
            waiting.thread.interrupt();
            assertFalse(waiting.get());
            assertInTime(start);
            proxy.letGo();
            Async.until(() -> queued() == 0 && !redis.exists(name));
        }
    }

    @Test
    void anInterruptedTryIsForgottenByTheNextOne() throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other = Holdfast.connect(proxy.url())) {
            HoldfastLock there = other.lock(name, ENDLESS);
            Async<Void> using =
                    Async.start(
                            () -> {
                                there.acquire().close();
                                proxy.hold(Proxy.Way.REQUESTS);
                                assertThrows(InterruptedException.class, there::acquire);
                                proxy.letGo();
                                for (int i = 0; i < 100; i++) {
                                    there.acquire(LONG).close();
                                }
                                return null;
                            });
            proxy.awaitCaught();
            using.thread.interrupt();
            using.get();
            Async.until(() -> queued() == 0 && !redis.exists(name));
        }
    }
}
