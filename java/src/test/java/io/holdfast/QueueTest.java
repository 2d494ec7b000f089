package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Those who wait: in which order, and that none is lost. */
final class QueueTest extends RedisTest {

    @Test
    void whoWaitsIsServedInTheOrderOfArrival() throws Exception {
        try (HoldfastClient other = SERVER.connect()) {
            List<Integer> order = Collections.synchronizedList(new ArrayList<>());
            List<Long> fences = Collections.synchronizedList(new ArrayList<>());
            List<CompletableFuture<?>> ends = new ArrayList<>();
            List<Async<?>> threads = new ArrayList<>();
            Hold first = lock.acquire();
            for (int i = 0; i < 24; i++) {
                int place = i;
                HoldfastLock here = (i % 2 == 0 ? client : other).lock(name);
                if (i % 3 == 0) {
                    ends.add(
                            here.acquireAsync()
                                    .thenAccept(
                                            hold -> {
                                                order.add(place);
                                                fences.add(hold.fence());
                                                hold.close();
                                            }));
                } else {
                    threads.add(
                            Async.start(
                                    () -> {
                                        try (Hold hold = here.acquire()) {
                                            order.add(place);
                                            return fences.add(hold.fence());
                                        }
                                    }));
                }
                until(() -> queued() == place + 1);
            }
            first.close();
            for (Async<?> thread : threads) {
                thread.get();
            }
            for (CompletableFuture<?> end : ends) {
                end.get(20, TimeUnit.SECONDS);
            }
            assertEquals(order.stream().sorted().toList(), order);
            assertEquals(fences.stream().sorted().distinct().toList(), fences);
            assertEquals(24, order.size());
        }
        assertFalse(redis.exists(name));
        assertEquals(0, queued());
    }

    @Test
    void whoOnlyTriesDoesNotOvertakeTheQueue() throws Exception {
        lock.lock();
        Async<Boolean> waiting = Async.start(() -> stranger.acquire().isValid());
        until(() -> queued() == 1);
        HoldfastLock another = client.lock(name, LockOptions.defaults().owner("another"));
        Async<Boolean> trying =
                Async.start(
                        () -> {
                            while (waiting.isRunning()) {
                                if (another.tryLock()) {
                                    return true;
                                }
                            }
                            return false;
                        });
        lock.unlock();
        assertTrue(waiting.get());
        assertFalse(trying.get());
    }

    @Test
    void manyHandoffsBetweenManyThreadsOfTwoClientsLoseNobody() throws Exception {
        int rounds = 20;
        int[] inside = {0};
        try (HoldfastClient other = SERVER.connect()) {
            List<Async<?>> threads = new ArrayList<>();
            for (int i = 0; i < 16; i++) {
                HoldfastLock here = (i % 2 == 0 ? client : other).lock(name);
                threads.add(
                        Async.start(
                                () -> {
                                    for (int j = 0; j < rounds; j++) {
                                        here.lock();
                                        inside[0]++; // not atomic: the lock is what protects it
                                        here.unlock();
                                    }
                                    return null;
                                }));
            }
            for (Async<?> thread : threads) {
                thread.get();
            }
        }
        assertEquals(16 * rounds, inside[0]);
        assertFalse(redis.exists(name));
        assertEquals(0, queued());
    }

    @Test
    void aLockThatWaitedIsOnTheStackOfItsThread() throws Exception {
        lock.lock();
        Async<Integer> waiting =
                Async.start(
                        () -> {
                            lock.lock();
                            lock.lock();
                            int count = lock.getHoldCount();
                            client.lock(name).unlock();
                            lock.unlock();
                            assertThrows(LockNotHeldException.class, lock::unlock);
                            return count;
                        });
        until(() -> queued() == 1);
        lock.unlock();
        assertEquals(2, waiting.get());
        assertFalse(redis.exists(name));
    }

    @Test
    void aMutexThatWaitedIsReleasedByAnyThread() throws Exception {
        HoldfastLock mutex = client.lock(name, LockOptions.defaults().reentrant(false));
        mutex.lock();
        Async<Integer> waiting =
                Async.start(
                        () -> {
                            mutex.lock();
                            return mutex.getHoldCount();
                        });
        until(() -> queued() == 1);
        mutex.unlock();
        assertEquals(1, waiting.get());
        mutex.unlock();
        assertFalse(redis.exists(name));
    }

    @Test
    void whoHoldsTheLockNestsWhileOthersWait() throws Exception {
        lock.lock();
        List<Async<Boolean>> waiting = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            waiting.add(
                    Async.start(
                            () -> {
                                lock.lock();
                                lock.unlock();
                                return true;
                            }));
        }
        until(() -> queued() == 3);
        assertTrue(lock.tryLock());
        assertTrue(lock.tryLock(10, TimeUnit.SECONDS));
        lock.lock();
        assertEquals(4, lock.getHoldCount());
        for (int i = 0; i < 4; i++) {
            lock.unlock();
        }
        for (Async<Boolean> each : waiting) {
            assertTrue(each.get());
        }
        assertFalse(redis.exists(name));
    }

    @Test
    void theShortestTryTriesOnceAlsoWhenOthersWait() throws Exception {
        lock.lock();
        Async<Hold> waiting = Async.start(() -> lock.acquire());
        until(() -> queued() == 1);
        assertTrue(lock.tryLock(1, TimeUnit.NANOSECONDS), "it holds the lock already");
        lock.unlock();
        lock.unlock();
        waiting.get().close();
    }

    enum Way {
        LOCK {
            @Override
            void pass(HoldfastLock lock) {
                lock.lock();
                lock.unlock();
            }
        },
        TRY_LOCK {
            @Override
            void pass(HoldfastLock lock) throws InterruptedException {
                assertTrue(lock.tryLock(20, TimeUnit.SECONDS));
                lock.unlock();
            }
        },
        HOLD {
            @Override
            void pass(HoldfastLock lock) throws InterruptedException {
                lock.acquire(LONG).close();
            }
        };

        abstract void pass(HoldfastLock lock) throws InterruptedException;
    }

    @ParameterizedTest
    @CsvSource({"LOCK,true", "TRY_LOCK,false", "HOLD,false"})
    void aHandoffTakesTwoCommands(Way way, boolean shared) throws Exception {
        int rounds = 100;
        CountDownLatch ready = new CountDownLatch(16);
        lock.lock();
        List<Async<Void>> threads = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            HoldfastLock here = shared ? lock : client.lock(name);
            threads.add(
                    Async.start(
                            () -> {
                                ready.countDown();
                                for (int j = 0; j < rounds; j++) {
                                    way.pass(here);
                                }
                                return null;
                            }));
        }
        ready.await();
        until(() -> queued() == 16);
        long before = scripts();
        lock.unlock();
        for (Async<Void> thread : threads) {
            thread.get();
        }
        double each = (scripts() - before) / (16.0 * rounds);
        assertTrue(each <= 2.1, each + " commands for each");
    }

    private long scripts() {
        return redis.info("commandstats")
                .lines()
                .filter(line -> line.startsWith("cmdstat_eval"))
                .mapToLong(line -> Long.parseLong(line.replaceAll(".*calls=(\\d+),.*", "$1")))
                .sum();
    }
}
