package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.micrometer.HoldfastMetrics;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What a client tells of itself. */
final class StatsTest extends RedisTest {

    private void useIt() throws Exception {
        lock.lock();
        assertFalse(stranger.tryLock());
        Async<Hold> waiting = Async.start(() -> stranger.acquire());
        until(() -> queued() == 1);
        Thread.sleep(50); // its answer has to be here, else it was not a wait
        assertEquals(1, client.stats().waiting());
        assertEquals(1, client.stats().held());
        lock.unlock();
        Hold hold = waiting.get();
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, hold::close);
    }

    @Test
    void theClientCountsWhatItDoes() throws Exception {
        useIt();
        ClientStats stats = client.stats();
        assertEquals(0, stats.held());
        assertEquals(0, stats.waiting());
        assertEquals(2, stats.acquired());
        assertEquals(1, stats.waited());
        assertTrue(stats.waitedTime().compareTo(Duration.ZERO) > 0);
        assertEquals(1, stats.refused());
        assertEquals(0, stats.unknown());
        assertEquals(1, stats.released());
        assertEquals(1, stats.lost());
        client.close();
        assertThrows(ClosedException.class, client::stats);
    }

    @Test
    void micrometerShowsIt() throws Exception {
        SimpleMeterRegistry registry = new SimpleMeterRegistry();
        new HoldfastMetrics(client, Tag.of("client", "a")).bindTo(registry);
        useIt();
        lock.lock();
        System.gc();
        assertEquals(1, registry.get("holdfast.held").tag("client", "a").gauge().value());
        assertEquals(0, registry.get("holdfast.waiting").gauge().value());
        assertEquals(3, registry.get("holdfast.acquired").functionCounter().count());
        assertEquals(1, registry.get("holdfast.lost").functionCounter().count());
        assertEquals(1, registry.get("holdfast.wait").functionTimer().count());
        assertTrue(
                registry.get("holdfast.wait").functionTimer().totalTime(TimeUnit.NANOSECONDS) > 0);
        client.close();
        assertEquals(3, registry.get("holdfast.acquired").functionCounter().count());
    }
}
