package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.internal.core.Backoff;
import java.time.Duration;
import java.util.List;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** One leader of all candidates. */
final class LeaderTest extends RedisTest {
    private final List<String> told = new CopyOnWriteArrayList<>();

    private Leader candidate(String which) {
        return client.leader(
                name,
                fence -> told.add(which + " elected"),
                () -> told.add(which + " lost"),
                () -> told.add(which + " resigned"));
    }

    @Test
    void oneLeadsAndTheNextFollowsIt() throws Exception {
        Leader second = candidate("b");
        try (Leader first = candidate("a")) {
            first.start();
            until(() -> first.isLeader() && told.size() == 1);
            assertThrows(IllegalStateException.class, first::start);
            second.start();
            until(() -> queued() == 1);
            assertFalse(second.isLeader());
            assertEquals(OptionalLong.empty(), second.fence());
            long fence = first.fence().orElseThrow();
            first.resign();
            until(() -> second.isLeader() && told.size() == 3);
            assertTrue(second.fence().orElseThrow() > fence);
            second.close();
            until(first::isLeader);
            until(() -> told.size() == 5);
        }
        assertFalse(lock.isLocked());
        assertEquals(
                List.of(
                        "a elected",
                        "a resigned",
                        "b elected",
                        "b resigned",
                        "a elected",
                        "a resigned"),
                told);
    }

    @Test
    void whoIsElectedAfterAWaitHasItsWholeLease() throws Exception {
        Duration lease = Duration.ofSeconds(10); // the default
        CompletableFuture<Duration> left = new CompletableFuture<>();
        try (Leader first = candidate("a");
                Leader second =
                        client.leader(
                                name,
                                fence -> left.complete(lock.inspect().remaining()),
                                () -> told.add("b lost"),
                                () -> {})) {
            first.start();
            until(first::isLeader);
            second.start();
            until(() -> queued() == 1);
            first.resign();
            Duration least = lease.multipliedBy(6).dividedBy(10); // a renewal leaves as much
            assertTrue(left.get(20, TimeUnit.SECONDS).compareTo(least) >= 0, left::toString);
            assertTrue(second.isLeader());
        }
        assertFalse(told.contains("b lost"));
    }

    @Test
    void aCandidateThatWaitsCanBeClosed() throws Exception {
        Hold busy = lock.acquire();
        try (Leader leader = candidate("a")) {
            leader.start();
            until(() -> queued() == 1);
        }
        until(() -> queued() == 0);
        busy.close();
        assertEquals(List.of(), told);
    }

    /** No thread or descriptor is to be had: the next try may find one. */
    @Test
    void aCandidateThatCannotBeginStandsAgain() throws Exception {
        AtomicInteger tries = new AtomicInteger();
        HoldfastLock scarce =
                (HoldfastLock)
                        java.lang.reflect.Proxy.newProxyInstance(
                                HoldfastLock.class.getClassLoader(),
                                new Class<?>[] {HoldfastLock.class},
                                (self, method, arguments) -> {
                                    if (method.getName().equals("acquire")
                                            && tries.incrementAndGet() == 1) {
                                        throw new OutOfMemoryError("no file descriptor");
                                    }
                                    return method.invoke(lock, arguments);
                                });
        Duration lease = Duration.ofSeconds(10);
        try (Leader leader = new Leader(scarce, lease, fence -> {}, () -> {}, () -> {})) {
            leader.start();
            until(leader::isLeader);
        }
        assertEquals(2, tries.get());
    }

    @Test
    void aLossInterruptsTheWorkAndItStandsAgain() throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        AtomicInteger interrupted = new AtomicInteger();
        try (Leader leader =
                client.leader(
                        name,
                        Duration.ofMillis(500),
                        fence -> {
                            try {
                                Thread.sleep(60_000);
                            } catch (InterruptedException e) {
                                interrupted.incrementAndGet();
                            }
                        },
                        lost::countDown,
                        () -> {})) {
            leader.start();
            until(leader::isLeader);
            assertTrue(lock.forceUnlock());
            assertTrue(lost.await(20, TimeUnit.SECONDS));
            until(leader::isLeader);
            until(() -> interrupted.get() >= 1);
        }
        assertTrue(interrupted.get() >= 2, interrupted + " times");
    }

    @Test
    void aCallbackMayClose() throws Exception {
        for (String where : List.of("elected", "resigned")) {
            told.clear();
            Leader[] leader = new Leader[1];
            Consumer<String> say =
                    what -> {
                        told.add(what);
                        if (what.equals(where)) {
                            leader[0].close(); // which does not wait
                        } else {
                            leader[0].resign();
                        }
                    };
            leader[0] =
                    client.leader(
                            name,
                            fence -> say.accept("elected"),
                            () -> say.accept("lost"),
                            () -> say.accept("resigned"));
            leader[0].start();
            until(() -> told.contains("resigned"));
            leader[0].close();
            assertEquals(List.of("elected", "resigned"), told.stream().sorted().toList());
            assertFalse(lock.isLocked());
        }
    }

    @Test
    void callbacksThatThrowOrInterruptEndNothing() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        try (Leader leader =
                client.leader(
                        name,
                        fence -> {
                            if (calls.incrementAndGet() == 1) {
                                throw new AssertionError("no");
                            }
                        },
                        () -> {},
                        () -> {
                            Thread.currentThread().interrupt();
                            throw new AssertionError("no");
                        })) {
            leader.start();
            until(() -> calls.get() == 2 && leader.isLeader());
            leader.resign();
            until(() -> calls.get() == 3 && leader.isLeader());
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aClosedClientTellsItsLeader() throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        HoldfastClient brief = SERVER.connect();
        try (Leader leader =
                brief.leader(
                        name, Duration.ofHours(1), fence -> {}, lost::countDown, () -> {})) {
            leader.start();
            until(leader::isLeader);
            brief.close();
            assertFalse(leader.isLeader());
            assertTrue(lost.await(20, TimeUnit.SECONDS));
        }
    }

    @Test
    void oneWhoseWorkThrowsStandsBackForLongerEachTime() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        AtomicInteger others = new AtomicInteger();
        long start = System.nanoTime();
        try (Leader broken =
                        client.leader(
                                name,
                                fence -> {
                                    calls.incrementAndGet();
                                    throw new IllegalStateException("the database is down");
                                },
                                () -> {},
                                () -> {});
                Leader well =
                        client.leader(
                                name, fence -> others.incrementAndGet(), () -> {}, () -> {})) {
            broken.start();
            until(() -> calls.get() == 5);
            assertTrue(System.nanoTime() - start >= 750_000_000, "early");
            well.start();
            until(() -> others.get() == 1);
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aPauseGrowsToItsLimitAndBeginsAgainAfterAGoodTerm() {
        Backoff backoff = new Backoff();
        for (int round = 0; round < 2; round++) {
            long limit = 100;
            for (int i = 0; i < 12; i++) {
                long pause = backoff.nanos() / 1_000_000;
                assertTrue(limit / 2 <= pause && pause <= limit, pause + " of " + limit);
                limit = Math.min(2 * limit, 30_000);
            }
            backoff.reset();
        }
    }

    @Test
    void oneWhoseWorkThrowsResigns() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        try (Leader leader =
                client.leader(
                        name,
                        fence -> {
                            if (calls.incrementAndGet() == 1) {
                                throw new IllegalStateException("no");
                            }
                        },
                        () -> told.add("lost"),
                        () -> told.add("resigned"))) {
            leader.start();
            until(() -> calls.get() == 2);
        }
        assertEquals(List.of("resigned", "resigned"), told);
        assertThrows(
                IllegalArgumentException.class,
                () -> client.leader(name, Hold.FOREVER, fence -> {}, () -> {}, () -> {}));
    }

    @Test
    void aBusyExecutorKeepsNoLeaderFromItsWork() throws Exception {
        CountDownLatch idle = new CountDownLatch(1);
        ExecutorService mine = Executors.newSingleThreadExecutor();
        mine.submit(() -> idle.await(1, TimeUnit.MINUTES));
        ClientOptions options = ClientOptions.defaults().executor(mine);
        try (HoldfastClient busy = Holdfast.connect(url(), options);
                Leader leader =
                        busy.leader(name, fence -> told.add("elected"), () -> {}, () -> {})) {
            leader.start();
            until(() -> told.contains("elected"));
        } finally {
            idle.countDown();
            mine.shutdown();
        }
    }
}
