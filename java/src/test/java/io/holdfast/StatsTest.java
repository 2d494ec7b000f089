package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.micrometer.HoldfastMetrics;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

/** What a client tells of itself. */
final class StatsTest extends RedisTest {

    /** What is not 0; and each histogram has as many as it must have. */
    private static Map<String, Long> counted(LockStats stats) {
        Map<String, Long> all = new TreeMap<>();
        all.put("held", stats.held());
        all.put("waiting", stats.waiting());
        all.put("acquired", stats.acquired());
        all.put("queued", stats.queued());
        stats.answered().forEach((outcome, count) -> all.put("answered " + outcome, count));
        all.put("begun", stats.begun());
        stats.finished().forEach((outcome, count) -> all.put("finished " + outcome, count));
        all.put("released", stats.released());
        all.put("kept", stats.kept());
        all.put("alarms", stats.alarms());
        stats.refused().forEach((cause, count) -> all.put(cause.name(), count));
        stats.failed().forEach((cause, count) -> all.put("failed " + cause, count));
        stats.lost().forEach((cause, count) -> all.put("lost " + cause, count));
        assertEquals(stats.acquired(), stats.waits().count());
        all.put("ended", stats.holds().count());
        all.values().removeIf(count -> count == 0);
        return all;
    }

    private Map<String, Long> counted() {
        return counted(client.stats().all());
    }

    private static Map<String, Long> counts(Object... pairs) {
        Map<String, Long> all = new TreeMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            all.put((String) pairs[i], ((Integer) pairs[i + 1]).longValue());
        }
        return all;
    }

    @Test
    void aNewClientHasCountedNothing() {
        ClientStats stats = client.stats();
        assertEquals(Map.of(), counted(stats.all()));
        assertEquals(stats.all(), stats.others());
        assertEquals(Map.of(), stats.names());
        assertEquals(1, stats.connections());
        assertEquals(0, stats.reconnects());
        client.close();
        assertThrows(ClosedException.class, client::stats);
    }

    @Test
    void anAcquireAndItsReleaseAreCounted() throws Exception {
        lock.lock();
        assertEquals(counts("held", 1, "acquired", 1), counted());
        lock.unlock();
        lock.acquire().close();
        lock.acquireAsync().get().close();
        assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
        lock.unlock();
        assertEquals(counts("acquired", 4, "released", 4, "ended", 4), counted());
        assertTrue(client.stats().all().waits().sum().compareTo(Duration.ZERO) > 0);
    }

    @Test
    void aWaitInTheQueueIsCountedAndMeasured() throws Exception {
        lock.lock();
        Async<Hold> waiting = Async.start(() -> stranger.acquire());
        until(() -> queued() == 1);
        Thread.sleep(50); // its answer has to be here, else it was not a wait
        assertEquals(counts("held", 1, "acquired", 1, "waiting", 1), counted());
        lock.unlock();
        waiting.get().close();
        assertEquals(counts("acquired", 2, "queued", 1, "released", 2, "ended", 2), counted());
        Histogram waits = client.stats().all().waits();
        assertTrue(waits.sum().toMillis() >= 50);
        long longest = 0;
        for (int i = 0; i < Histogram.BOUNDS.size(); i++) {
            longest = waits.counts().get(i) > 0 ? i : longest;
        }
        assertTrue(Histogram.BOUNDS.get((int) longest).toMillis() >= 50);
        assertEquals(Duration.ofNanos(64_000), Histogram.BOUNDS.get(0));
        assertEquals(Histogram.BOUNDS.size() + 1, waits.counts().size());
    }

    @Test
    void eachWayOfNotGettingTheLockIsCountedOnce() throws Exception {
        lock.lock();
        assertFalse(stranger.tryLock());
        assertEquals(counts("held", 1, "acquired", 1, "BUSY", 1), counted());
        assertFalse(stranger.tryLock(0, TimeUnit.SECONDS));
        assertEquals(counts("held", 1, "acquired", 1, "BUSY", 2), counted());
        for (int i = 0; i < 3; i++) { // a try alone, and one that goes on
            assertFalse(stranger.tryLock(1, TimeUnit.NANOSECONDS));
            assertFalse(stranger.tryLock(30, TimeUnit.MILLISECONDS));
        }
        assertThrows(LockTimeoutException.class, () -> stranger.acquire(Duration.ofMillis(30)));
        assertEquals(counts("held", 1, "acquired", 1, "BUSY", 2, "TIMEOUT", 7), counted());
        CompletableFuture<Hold> given = stranger.acquireAsync();
        until(() -> queued() == 1);
        assertTrue(given.cancel(true));
        assertThrows(CancellationException.class, given::get);
        until(() -> client.stats().all().refused().get(RefusalCause.CANCELLED) == 1);
        Async<Boolean> waiting =
                Async.start(
                        () -> {
                            assertThrows(InterruptedException.class, stranger::lockInterruptibly);
                            return true;
                        });
        until(() -> queued() == 1);
        waiting.thread.interrupt();
        assertTrue(waiting.get());
        until(() -> client.stats().all().refused().get(RefusalCause.CANCELLED) == 2);
        lock.unlock();
        assertEquals(
                counts(
                        "acquired", 1, "BUSY", 2, "TIMEOUT", 7, "CANCELLED", 2, "released", 1,
                        "ended", 1),
                counted());
    }

    @Test
    void aLossIsCountedOnceByItsCause() throws Exception {
        Hold hold = lock.acquire();
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, hold::close);
        assertEquals(counts("acquired", 1, "lost GONE", 1, "ended", 1), counted());
        LockOptions brief = LockOptions.defaults().lease(Duration.ofMillis(20)).renew(false);
        Hold expires = client.lock(name, brief).acquire();
        until(() -> !expires.isValid());
        assertThrows(LockLostException.class, expires::close);
        assertEquals(
                counts("acquired", 2, "lost GONE", 1, "lost EXPIRED", 1, "ended", 2), counted());
    }

    @Test
    void anOutageIsNotCountedAsALockThatOthersHold() {
        ClientOptions options =
                ClientOptions.defaults().lazy(true).connectTimeout(Duration.ofMillis(100));
        try (HoldfastClient absent = Holdfast.connect("unix:///nonexistent/absent", options)) {
            assertThrows(ConnectionFailedException.class, () -> absent.lock(name).tryLock());
            assertEquals(counts("failed UNREACHABLE", 1), counted(absent.stats().all()));
        }
        redis.configSet("min-replicas-to-write", "1");
        try {
            assertThrows(ServerException.class, lock::tryLock);
        } finally {
            redis.configSet("min-replicas-to-write", "0");
        }
        assertEquals(counts("failed ERROR", 1), counted());
    }

    @Test
    void namesAreCountedApartUpToABound() throws Exception {
        ClientOptions options = ClientOptions.defaults().countNames(true).namesMax(3);
        try (HoldfastClient counting = Holdfast.connect(url(), options)) {
            counting.lock(name, LockOptions.defaults().countName(false)).acquire().close();
            byte[] strange = {(byte) 0xff, 'a', (byte) 0xc3};
            counting.lock(strange).acquire().close();
            for (int i = 0; i < 100; i++) {
                counting.lock(name + i).acquire().close();
            }
            ClientStats stats = counting.stats();
            assertEquals(
                    List.of("\\xffa\\xc3", name + "0", name + "1").stream().sorted().toList(),
                    stats.names().keySet().stream().sorted().toList());
            stats.names().values().forEach(each -> assertEquals(1, each.acquired()));
            assertEquals(99, stats.others().acquired());
            assertEquals(102, stats.all().acquired());
        }
        client.lock(name, LockOptions.defaults().countName(true)).acquire().close();
        assertEquals(1, client.stats().names().get(name).released());
    }

    @Test
    void aHundredThreadsCountsAddUp() throws Exception {
        AtomicLong won = new AtomicLong();
        List<Async<Boolean>> crowd = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            HoldfastLock mine = client.lock(name + i % 20, LockOptions.defaults().countName(true));
            crowd.add(
                    Async.start(
                            () -> {
                                for (int turn = 0; turn < 20; turn++) {
                                    if (mine.tryLock(turn % 2 * 30_000, TimeUnit.MILLISECONDS)) {
                                        won.incrementAndGet();
                                        mine.unlock();
                                    }
                                }
                                return true;
                            }));
        }
        for (Async<Boolean> each : crowd) {
            assertTrue(each.get());
        }
        ClientStats stats = client.stats();
        LockStats all = stats.all();
        assertEquals(won.get(), all.acquired());
        assertEquals(won.get(), all.released());
        assertEquals(won.get(), all.holds().count());
        assertEquals(2000 - won.get(), all.refused().get(RefusalCause.BUSY));
        assertEquals(20, stats.names().size());
        assertEquals(
                won.get(), stats.names().values().stream().mapToLong(LockStats::acquired).sum());
        counted(all);
    }

    @Test
    void micrometerShowsIt() throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        new HoldfastMetrics(client, Tag.of("client", "a")).bindTo(registry);
        lock.lock();
        assertFalse(stranger.tryLock());
        lock.unlock();
        HoldfastLock counted = client.lock(name + " 2", LockOptions.defaults().countName(true));
        Hold hold = counted.acquire();
        System.gc();
        Thread.sleep(50); // figures are read together for some ms
        assertEquals(0, registry.get("holdfast.held").tags("client", "a", "lock", "").gauge().value());
        assertEquals(1, registry.get("holdfast.held").tags("lock", name + " 2").gauge().value());
        assertEquals(
                1, registry.get("holdfast.acquired").tags("lock", "").functionCounter().count());
        assertEquals(
                1,
                registry.get("holdfast.refused")
                        .tags("lock", "", "cause", "busy")
                        .functionCounter()
                        .count());
        assertEquals(
                0, registry.get("holdfast.lost").tags("cause", "gone").functionCounter().count());
        assertEquals(
                0,
                registry.get("holdfast.answered")
                        .tags("lock", "", "outcome", "unknown")
                        .functionCounter()
                        .count());
        assertEquals(
                0,
                registry.get("holdfast.finished")
                        .tags("lock", "", "outcome", "unkept")
                        .functionCounter()
                        .count());
        assertEquals(0, registry.get("holdfast.begun").tags("lock", "").functionCounter().count());
        assertEquals(1, registry.get("holdfast.wait").tags("lock", "").functionTimer().count());
        assertTrue(
                registry.get("holdfast.wait").functionTimer().totalTime(TimeUnit.NANOSECONDS) > 0);
        assertEquals(
                1,
                registry.get("holdfast.hold.histogram")
                        .tags("lock", "", "le", "+Inf")
                        .gauge()
                        .value());
        assertNotNull(registry.get("holdfast.wait.histogram").tags("le", "0.000064").gauge());
        assertNotNull(registry.get("holdfast.wait.histogram").tags("le", "2147.483648").gauge());
        double before = 0;
        for (Duration bound : Histogram.BOUNDS) { // cumulative
            String le = java.math.BigDecimal.valueOf(bound.toNanos(), 9).stripTrailingZeros().toPlainString();
            double now =
                    registry.get("holdfast.hold.histogram")
                            .tags("lock", "", "le", le)
                            .gauge()
                            .value();
            assertTrue(now >= before);
            before = now;
        }
        assertTrue(registry.get("holdfast.connections").functionCounter().count() >= 1);
        hold.close();
        Thread.sleep(50);
        assertEquals(
                1, registry.get("holdfast.released").tags("lock", name + " 2").functionCounter().count());
        client.close();
        assertEquals(
                1, registry.get("holdfast.acquired").tags("lock", "").functionCounter().count());
        assertNull(registry.find("holdfast.acquired").tags("lock", name).functionCounter());
    }
}
