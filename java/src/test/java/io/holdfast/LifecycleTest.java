package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.ServerSocket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What is closed, when, and what is left then. That the JVM lives on is part of every test. */
final class LifecycleTest extends RedisTest {

    @Test
    void useAfterCloseIsRefused() throws Exception {
        Hold hold = lock.acquire();
        client.close();
        client.close();
        for (Executable use :
                List.<Executable>of(
                        () -> client.lock(name),
                        lock::lock,
                        lock::tryLock,
                        lock::lockInterruptibly,
                        lock::acquire,
                        () -> lock.acquire(SECOND),
                        () -> lock.tryLock(1, TimeUnit.SECONDS),
                        lock::unlock,
                        lock::isLocked,
                        lock::inspect,
                        lock::forceUnlock,
                        hold::check,
                        hold::renew,
                        () -> hold.extend(SECOND),
                        hold::release,
                        () -> lock.adopt(new byte[1]),
                        () -> lock.lock(SECOND),
                        () -> lock.tryLock(SECOND, SECOND),
                        client::stats,
                        () -> Async.elsewhere(() -> lock.lock()))) {
            assertThrowsExactly(ClosedException.class, use);
        }
        assertFalse(hold.isValid());
        assertEquals(Duration.ZERO, hold.remaining());
        assertHoldsNothing();
        Async.elsewhere(this::assertHoldsNothing); // a thread's first call
    }

    private void assertHoldsNothing() {
        assertEquals(0, lock.getHoldCount());
        assertFalse(lock.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, lock::fence);
    }

    @Test
    void theLastFenceLivesAsLongAsTold() throws Exception {
        ClientOptions options = ClientOptions.defaults().fenceLife(Duration.ofMinutes(1));
        lock.acquire().close(); // the server knows the scripts: nothing is sent twice
        redis.del("{" + name + "}" + name + ":hf1:f");
        try (HoldfastClient one = Holdfast.connect(url(), options)) {
            one.lock(name).acquire(LONG).close();
            long left = redis.pttl("{" + name + "}" + name + ":hf1:f");
            assertTrue(left > 20_000 && left <= 61_000, "the fence lives for " + left + " ms");
        }
        assertThrows(
                IllegalArgumentException.class, () -> options.fenceLife(Duration.ofMillis(999)));
    }

    @Test
    void theOptionsReachTheServer() throws Exception {
        ClientOptions options =
                ClientOptions.defaults()
                        .clientName("till-7")
                        .keepAlive(Duration.ofSeconds(5))
                        .connectTimeout(Duration.ofSeconds(20))
                        .commandTimeout(Duration.ofSeconds(20));
        try (HoldfastClient one = Holdfast.connect(url(), options)) {
            HoldfastLock there = one.lock(name, LockOptions.defaults().reentrant(false));
            List<Async<?>> calls = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                calls.add(
                        Async.start(
                                () -> {
                                    there.acquire(LONG).close();
                                    return true;
                                }));
            }
            for (Async<?> call : calls) {
                call.get();
            }
            // Two for requests, and one on which grants arrive.
            assertTrue(redis.clientList().split(" name=till-7 ", -1).length - 1 <= 3);
        }
        for (String wrong : List.of("", "two words", "caf\u00e9", "x".repeat(64))) {
            assertThrows(IllegalArgumentException.class, () -> options.clientName(wrong));
        }
        assertThrows(
                IllegalArgumentException.class, () -> options.keepAlive(Duration.ofMillis(-1)));
    }

    @Test
    void aServerThatMayEvictAHeldLockIsWarnedOfOnce() throws Exception {
        redis.configSet("maxmemory", "1gb");
        redis.configSet("maxmemory-policy", "allkeys-lru");
        try {
            String said = Jvm.run(List.of(), Jvm.program(Exercise.class), url()).output();
            assertEquals(2, said.split("maxmemory-policy allkeys-lru", -1).length, said);
            assertTrue(said.contains("WARNING"), said);
        } finally {
            redis.configSet("maxmemory-policy", "noeviction");
            redis.configSet("maxmemory", "0");
        }
    }

    @Test
    void aLazyClientConnectsAtItsFirstUse() throws Exception {
        int port;
        try (ServerSocket silent = new ServerSocket(0)) {
            port = silent.getLocalPort();
        }
        String down = "redis://127.0.0.1:" + port + "?connect_timeout=0.3";
        ClientOptions lazy = ClientOptions.defaults().lazy(true);
        for (HoldfastClient late :
                List.of(Holdfast.connect(down, lazy), Holdfast.connect(down + "&lazy=on"))) {
            try (late) {
                assertThrows(ConnectionFailedException.class, late.lock(name)::tryLock);
                assertThrows(
                        ConnectionFailedException.class,
                        () -> late.lock(name).acquire(Duration.ofMillis(100)));
            }
        }
        assertThrows(IllegalArgumentException.class, () -> Holdfast.connect("redis://:0", lazy));
        try (HoldfastClient late = Holdfast.connect(url(), lazy)) {
            late.lock(name).acquire(SECOND).close();
        }
    }

    @Test
    void closeReleasesWhatTheClientHolds() throws Exception {
        lock.lock();
        lock.lock();
        Hold hold = client.lock(name + "2").acquire();
        assertEquals(2, redis.exists(name, name + "2"));
        client.close();
        assertEquals(0, redis.exists(name, name + "2"));
        assertFalse(hold.isValid());
    }

    @Test
    void closeEndsWaitingCalls() throws Exception {
        lock.lock();
        HoldfastClient other = SERVER.connect();
        HoldfastLock there = other.lock(name);
        List<Async<?>> waiters =
                List.of(
                        Async.start(() -> assertThrows(ClosedException.class, there::lock)),
                        Async.start(() -> assertThrows(ClosedException.class, there::acquire)),
                        Async.start(
                                () ->
                                        assertThrows(
                                                ClosedException.class,
                                                () -> there.tryLock(1, TimeUnit.DAYS))));
        Async.until(() -> queued() == 3);
        long start = System.nanoTime();
        other.close();
        for (Async<?> waiter : waiters) {
            waiter.get();
        }
        assertInTime(start);
        assertEquals(0, queued());
        lock.unlock();
        assertFalse(redis.exists(name));
    }

    @RepeatedTest(15)
    void aClientMayBeClosedUnderAnyCall() throws Exception {
        HoldfastClient racing = SERVER.connect();
        CountDownLatch started = new CountDownLatch(6);
        List<Executable> uses =
                List.of(
                        () -> racing.lock(name).inspect(),
                        () -> racing.lock(name).acquire(SECOND).close(),
                        () -> {
                            HoldfastLock racingLock = racing.lock(name + "2");
                            racingLock.lock();
                            racingLock.unlock();
                        });
        List<Async<?>> threads = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            Executable use = uses.get(i % uses.size());
            threads.add(
                    Async.start(
                            () -> {
                                started.countDown();
                                return assertThrows(
                                        ClosedException.class,
                                        () -> {
                                            for (;;) {
                                                use.execute();
                                            }
                                        });
                            }));
        }
        started.await();
        Thread.sleep(5);
        racing.close();
        for (Async<?> thread : threads) {
            thread.get();
        }
        assertEquals(0, redis.exists(name, name + "2"));
    }

    @RepeatedTest(8)
    void aHoldMayBeClosedUnderAnyCall() throws Exception {
        Hold hold = lock.acquire();
        CountDownLatch started = new CountDownLatch(5);
        List<Executable> uses =
                List.of(hold::check, hold::renew, () -> hold.extend(SECOND), hold::check);
        List<Async<?>> threads = new ArrayList<>();
        for (Executable use : uses) {
            threads.add(
                    Async.start(
                            () -> {
                                started.countDown();
                                return assertThrowsExactly(
                                        LockNotHeldException.class,
                                        () -> {
                                            for (;;) {
                                                use.execute();
                                            }
                                        });
                            }));
        }
        threads.add(
                Async.start(
                        () -> {
                            started.countDown();
                            while (hold.isValid()) {
                                assertFalse(hold.remaining().isNegative());
                            }
                            return null;
                        }));
        started.await();
        Thread.sleep(2);
        hold.close();
        for (Async<?> thread : threads) {
            thread.get();
        }
        assertFalse(redis.exists(name));
    }

    @RepeatedTest(8)
    void ofManyReleasesOneSucceeds() throws Exception {
        Hold hold = lock.acquire();
        AtomicInteger released = new AtomicInteger();
        List<Async<?>> threads = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            boolean close = i == 3;
            threads.add(
                    Async.start(
                            () -> {
                                try {
                                    if (close) {
                                        hold.close();
                                    } else {
                                        hold.release();
                                        released.incrementAndGet();
                                    }
                                } catch (LockNotHeldException e) {
                                    assertEquals(LockNotHeldException.class, e.getClass());
                                }
                                return null;
                            }));
        }
        for (Async<?> thread : threads) {
            thread.get();
        }
        assertTrue(released.get() <= 1);
        assertFalse(redis.exists(name));
    }

    /** Its holds may still be in use by an unknown thread: they are not released. */
    @Test
    void whatADroppedClientHoldsEndsWithItsLease() throws Exception {
        long start = System.nanoTime();
        leaveLocked();
        Async<Hold> waiting = Async.start(() -> lock.acquire());
        while (waiting.isRunning()) {
            System.gc();
            Thread.sleep(10);
        }
        assertTrue(secondsSince(start) > 0.2, "not released");
        waiting.get().close();
    }

    private void leaveLocked() {
        HoldfastClient dropped = SERVER.connect();
        Duration lease = Duration.ofMillis(400);
        dropped.lock(name, LockOptions.defaults().lease(lease).renew(true)).lock();
    }

    @Test
    void locksMayBeDroppedInMidCall() throws Exception {
        Async<Void> dropping =
                Async.start(
                        () -> {
                            for (int i = 0; i < 100; i++) {
                                client.lock(name).tryLock();
                                client.lock(name).inspect();
                                client.lock(name).unlock();
                            }
                            return null;
                        });
        while (dropping.isRunning()) {
            System.gc();
            Thread.sleep(2);
        }
        dropping.get();
    }

    /** One that a virtual thread holds keeps its carrier from all others, before Java 24. */
    @Test
    void noMonitorIsHeldAndProgressIsReadWhileTheServerIsAsked() throws Exception {
        ClientOptions patient = ClientOptions.defaults().connectTimeout(Duration.ofMinutes(1));
        try (RedisServer server = RedisServer.start();
                HoldfastClient other = Holdfast.connect(server.tcpUrl, patient)) {
            other.lock(name).lock();
            HoldfastLock busy = other.lock(name, LockOptions.defaults().owner("stranger"));
            LockTimeoutException timeout =
                    assertThrows(LockTimeoutException.class, () -> busy.acquire(Duration.ZERO));
            Locks walk = other.locks("*");
            server.stall();
            Async<Boolean> walking = Async.start(walk::hasNext);
            Async<List<LockHolder>> looking = Async.start(timeout::holders);
            try {
                untilAsking(walking.thread);
                untilAsking(looking.thread);
                for (Object each : List.of(walk, timeout)) {
                    Async.start(
                                    () -> {
                                        synchronized (each) {
                                            return each;
                                        }
                                    })
                            .get();
                }
                assertEquals(0, Async.elsewhere(walk::progress).locks());
                assertTrue(walking.isRunning() && looking.isRunning());
            } finally {
                server.resume();
            }
            assertTrue(walking.get());
            assertEquals(0, walk.progress().locks());
            assertEquals(1, looking.get().size());
            assertEquals(1, timeout.holders().size());
            assertSame(timeout.holders(), timeout.holders());
            walk.close();
        }
    }

    private static void untilAsking(Thread thread) throws InterruptedException {
        until(
                () ->
                        Stream.of(thread.getStackTrace())
                                .anyMatch(call -> call.getMethodName().startsWith("hf_")));
    }
}
