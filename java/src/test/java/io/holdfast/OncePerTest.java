package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.testing.InMemoryHoldfast;
import java.io.IOException;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Work once in a period, on a Redis. */
final class OncePerTest extends RedisTest {
    private static final Duration HOUR = Duration.ofHours(1);

    @Test
    void oneOfAllRunsItAndItStaysRefused() throws Exception {
        try (HoldfastClient other = connect()) {
            Callable<Optional<String>> here = client.oncePer(name, HOUR, () -> "done");
            Callable<Optional<String>> there = other.oncePer(name, HOUR, () -> "done");
            assertEquals(Optional.of("done"), here.call());
            assertEquals(Optional.empty(), there.call());
            assertEquals(Optional.empty(), here.call());
        }
        long left = redis.pttl(name);
        assertTrue(left > HOUR.toMillis() - 20_000 && left <= HOUR.toMillis(), left + " ms");
    }

    @Test
    void aRunThatThrowsPassesTheTurnOn() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        Callable<Optional<Object>> fails =
                client.oncePer(
                        name,
                        HOUR,
                        () -> {
                            runs.incrementAndGet();
                            throw new IOException("no");
                        });
        assertThrowsExactly(IOException.class, fails::call);
        assertThrowsExactly(IOException.class, fails::call);
        Runnable works = client.oncePer(name, HOUR, () -> {});
        works.run();
        assertEquals(Optional.empty(), fails.call());
        assertEquals(2, runs.get());
    }

    @Test
    void itsLockHasTheOptionsAndIsNeverReentrant() throws Exception {
        LockOptions options =
                LockOptions.defaults().lease(Duration.ofMinutes(10)).reentrant(true);
        AtomicInteger runs = new AtomicInteger();
        Callable<Optional<Long>> work =
                client.oncePer(
                        name,
                        HOUR,
                        options,
                        () -> {
                            client.oncePer(name, HOUR, options, (Runnable) runs::incrementAndGet).run();
                            return redis.pttl(name);
                        });
        long left = work.call().orElseThrow();
        assertTrue(left > Duration.ofMinutes(5).toMillis(), left + " ms");
        assertEquals(0, runs.get());
    }

    @Test
    void aRunLongerThanThePeriodReleases() throws Exception {
        client.oncePer(name, Duration.ofMillis(10), () -> pause(50)).call();
        assertFalse(lock.isLocked());
    }

    private static Void pause(long millis) throws InterruptedException {
        Thread.sleep(millis);
        return null;
    }

    @Test
    void aLossDuringTheRunIsTold() {
        Callable<Optional<Boolean>> work =
                client.oncePer(name, HOUR, () -> client.lock(name).forceUnlock());
        assertThrowsExactly(LockLostException.class, work::call);
    }

    @Test
    void wrongPeriodsAreRefused() {
        Runnable nothing = () -> {};
        for (Duration wrong : new Duration[] {Duration.ZERO, HOUR.negated(), Hold.FOREVER, Duration.ofDays(3651)}) {
            assertThrows(
                    IllegalArgumentException.class, () -> client.oncePer(name, wrong, nothing));
        }
    }

    @Test
    void aSchedulerOnEveryHostRunsItOnce() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        ScheduledExecutorService hosts = Executors.newScheduledThreadPool(4);
        try (HoldfastClient other = connect()) {
            for (int i = 0; i < 8; i++) {
                Runnable work = runs::incrementAndGet;
                Runnable once = (i % 2 == 0 ? client : other).oncePer(name, HOUR, work);
                hosts.scheduleAtFixedRate(once, 0, 5, TimeUnit.MILLISECONDS);
            }
            Async.until(() -> client.stats().all().refused().get(RefusalCause.BUSY) >= 20);
            hosts.shutdown();
            assertTrue(hosts.awaitTermination(20, TimeUnit.SECONDS));
        }
        assertEquals(1, runs.get());
    }

    @Test
    void itWorksInMemoryToo() throws Exception {
        try (HoldfastClient memory = new InMemoryHoldfast().connect()) {
            assertEquals(Optional.of(1), memory.oncePer("a", HOUR, () -> 1).call());
            assertEquals(Optional.empty(), memory.oncePer("a", HOUR, () -> 1).call());
        }
    }
}
