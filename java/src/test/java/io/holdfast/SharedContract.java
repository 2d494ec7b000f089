package io.holdfast;

import static io.holdfast.Async.elsewhere;
import static io.holdfast.Async.inAPool;
import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What shared holds must do, on a Redis or in memory. */
abstract class SharedContract extends ClientTest {
    private HoldfastLock seats(int permits) {
        return client.lock(name, LockOptions.defaults().permits(permits).reentrant(false));
    }

    // ----------------------------------------------------------------- Weights

    @Test
    void weightsShareThePermits() throws Exception {
        HoldfastLock pool = seats(5);
        assertSame(pool.shared(3), pool.shared(3));
        assertSame(pool.shared(3), pool.shared(3).shared(3));
        assertSame(pool.shared(), pool.shared(1));
        try (Hold three = pool.shared(3).acquire()) {
            LockHolder seen = pool.inspect().holders().get(0);
            assertEquals(3, seen.weight());
            assertTrue(seen.toString().contains("weight=3"), seen.toString());
            assertFalse(pool.shared(3).tryLock());
            try (Hold two = pool.shared(2).acquire(Duration.ZERO)) {
                assertTrue(two.fence() > three.fence());
                assertFalse(pool.shared().tryLock());
            }
            pool.shared().acquire(Duration.ZERO).close();
        }
        assertFalse(pool.isLocked());
    }

    @Test
    void nobodyPassesAHeavyAcquire() throws Exception {
        HoldfastLock pool = seats(5);
        CompletableFuture<Hold> heavy;
        CompletableFuture<Hold> light;
        try (Hold three = pool.shared(3).acquire()) {
            heavy = pool.shared(4).acquireAsync();
            until(() -> pool.inspect().queue().size() == 1);
            LockWaiter first = pool.inspect().queue().get(0);
            assertEquals(4, first.weight());
            assertEquals(5, first.permits());
            assertFalse(pool.shared().tryLock()); // though two are free
            light = pool.shared(2).acquireAsync();
            until(() -> pool.inspect().queue().size() == 2);
            assertFalse(heavy.isDone() || light.isDone());
        }
        Hold one = heavy.get();
        assertFalse(light.isDone());
        one.close();
        light.get().close();
    }

    @Test
    void whatNestsIsNoHeavier() throws Exception {
        HoldfastLock pool = client.lock(name, LockOptions.defaults().permits(5));
        pool.shared(2).lock();
        assertThrows(LockDeadlockException.class, () -> pool.shared(3).lock());
        pool.shared(2).lock();
        assertEquals(4, pool.inspect().holders().get(0).weight());
        pool.shared(2).unlock();
        pool.shared(2).unlock();
        assertFalse(pool.isLocked());
    }

    @Test
    void wrongWeightsAreRefused() {
        for (long wrong : new long[] {0, -1, 6}) {
            assertThrows(IllegalArgumentException.class, () -> seats(5).shared(wrong));
        }
        assertThrows(IllegalArgumentException.class, () -> LockOptions.defaults().weight(0));
        assertEquals(2, LockOptions.defaults().permits(3).weight(2).weight());
    }

    @Test
    void anInspectListsAHundredHolders() throws Exception {
        HoldfastLock seats = seats(102);
        List<Hold> holds = new ArrayList<>();
        for (int i = 0; i < 102; i++) {
            holds.add(seats.shared().acquire(Duration.ZERO));
        }
        assertEquals(102, seats.inspect().count());
        assertEquals(100, seats.inspect().holders().size());
        assertEquals(2, seats.inspect(100).holders().size());
        holds.forEach(Hold::close);
    }

    // ------------------------------------------------------------ Head starts

    private HoldfastLock ahead(String owner, long seconds) {
        LockOptions options = LockOptions.defaults().ahead(Duration.ofSeconds(seconds));
        return client.lock(name, options.owner(owner));
    }

    @Test
    void aHeadStartPassesWhatCameWithinIt() throws Exception {
        List<CompletableFuture<Hold>> started = new ArrayList<>();
        try (Hold held = lock.acquire()) {
            assertEquals(0, lock.inspect().queue().size());
            for (long seconds : new long[] {0, 5, 0, 60}) {
                started.add(ahead("by " + started.size(), seconds).acquireAsync());
                until(() -> lock.inspect().queue().size() == started.size());
            }
            List<LockWaiter> queue = lock.inspect().queue();
            assertEquals(
                    List.of("by 3", "by 1", "by 0", "by 2"),
                    queue.stream().map(LockWaiter::ownerText).toList());
            assertTrue(queue.get(1).waited().compareTo(Duration.ofSeconds(5)) >= 0);
            assertTrue(queue.get(2).waited().compareTo(Duration.ofSeconds(60)) < 0);
            assertEquals(Hold.FOREVER, queue.get(0).timeout());
        }
        for (int next : new int[] {3, 1, 0, 2}) {
            started.get(next).get(20, TimeUnit.SECONDS).close();
        }
    }

    @Test
    void aReaderWithAHeadStartPassesAWriter() throws Exception {
        CompletableFuture<Hold> writer;
        try (Hold reader = lock.shared().acquire()) {
            writer = stranger.acquireAsync(Duration.ofSeconds(50));
            until(() -> lock.inspect().queue().size() == 1);
            HoldfastLock urgent = ahead("urgent", 60);
            assertFalse(urgent.shared().tryLock()); // a try does not queue
            try (Hold second = urgent.shared().acquire(Duration.ofSeconds(50))) {
                assertEquals(2, lock.inspect().count());
                assertFalse(writer.isDone());
            }
        }
        writer.get().close();
    }

    @Test
    void wrongHeadStartsAreRefused() {
        LockOptions options = LockOptions.defaults();
        assertThrows(
                IllegalArgumentException.class, () -> options.ahead(Duration.ofSeconds(-1)));
        assertThrows(
                IllegalArgumentException.class, () -> options.ahead(Duration.ofMinutes(61)));
        assertEquals(Duration.ZERO, options.ahead());
        assertEquals(Duration.ofHours(1), options.ahead(Duration.ofHours(1)).ahead());
    }

    // --------------------------------------------------------- Stored limits

    private void assertDiffers(String told, Executable acquire) {
        LimitDiffersException differs = assertThrowsExactly(LimitDiffersException.class, acquire);
        assertTrue(differs.getMessage().contains(told), differs.getMessage());
    }

    @Test
    void aStoredLimitRefusesAnotherNumber() throws Exception {
        assertEquals(Optional.empty(), client.limit(name, 2));
        String told = "has 2 permits, and this acquire gives 9";
        assertDiffers(told, () -> seats(9).shared().acquire(Duration.ZERO));
        assertDiffers(told, () -> seats(9).shared().tryLock());
        CompletableFuture<Hold> started = seats(9).shared().acquireAsync();
        assertInstanceOf(
                LimitDiffersException.class,
                assertThrows(ExecutionException.class, started::get).getCause());
        try (Hold one = seats(2).shared().acquire(Duration.ZERO);
                Hold two = stranger.shared().acquire(Duration.ZERO)) {
            assertFalse(elsewhere(() -> lock.shared().tryLock())); // it follows the stored number
            assertEquals(Optional.of(new LockLimit(2, Duration.ZERO)), lock.inspect().limit());
            assertEquals(2, client.limit(name, 3).orElseThrow().permits());
            stranger.shared().acquire(Duration.ZERO).close();
        }
        assertDiffers("takes 4", () -> lock.shared(4).acquire(Duration.ZERO));
        lock.shared(3).acquire(Duration.ZERO).close();
        try (Locks all = client.locks(name)) { // though nothing holds it
            assertEquals(3, all.next().limit().orElseThrow().permits());
        }
        assertEquals(3, client.limit(name, 0).orElseThrow().permits());
        assertEquals(Optional.empty(), lock.inspect().limit());
        seats(9).shared().acquire(Duration.ZERO).close();
    }

    @Test
    void aWeightNeedsANumberOrAStoredLimit() {
        HoldfastLock two = client.lock(name, LockOptions.defaults().reentrant(false)).shared(2);
        assertDiffers("no limit is stored", () -> two.acquire(Duration.ZERO));
    }

    @Test
    void whoWaitsFollowsAChangeOfTheLimit() throws Exception {
        client.limit(name, 1);
        HoldfastLock follows = client.lock(name, LockOptions.defaults().reentrant(false)).shared();
        try (Hold one = seats(1).shared().acquire(Duration.ZERO)) {
            CompletableFuture<Hold> second = follows.acquireAsync();
            CompletableFuture<Hold> stubborn = seats(1).shared().acquireAsync();
            until(() -> lock.inspect().waiters() == 2);
            client.limit(name, 2);
            second.get(20, TimeUnit.SECONDS).close();
            assertInstanceOf(
                    LimitDiffersException.class,
                    assertThrows(
                                    ExecutionException.class,
                                    () -> stubborn.get(20, TimeUnit.SECONDS))
                            .getCause());
        }
    }

    @Test
    void aStoredRateRefusesAnotherGate() {
        Duration minute = Duration.ofMinutes(1);
        client.limit(name, 1, minute);
        assertEquals(Optional.of(new LockLimit(1, minute)), lock.inspect().limit());
        assertDiffers("lets pass 1 in 60000 ms", () -> client.gate(name, 9, minute).enter());
        client.gate(name, 1, minute).enter();
        assertThrows(GateFullException.class, () -> client.gate(name, 1, minute).enter());
        LockLimit was = client.limit(name, 0).orElseThrow();
        client.limit(name, was);
        assertEquals(was, lock.inspect().limit().orElseThrow());
    }

    @Test
    void wrongLimitsAreRefused() {
        for (long wrong : new long[] {-1, 10_000_000_000L}) {
            assertThrows(IllegalArgumentException.class, () -> client.limit(name, wrong));
        }
        for (Duration wrong :
                List.of(Duration.ZERO, Duration.ofMillis(9), Duration.ofDays(3651), Hold.FOREVER)) {
            assertThrows(IllegalArgumentException.class, () -> client.limit(name, 1, wrong));
        }
        assertThrows(IllegalArgumentException.class, () -> client.limit(name, 0, SECOND));
        assertThrows(IllegalArgumentException.class, () -> client.limit("", 1));
        client.close();
        assertThrowsExactly(ClosedException.class, () -> client.limit(name, 1));
    }

    // ----------------------------------------------------- Readers and writers

    @Test
    void readersEnterTogetherAndAWriterAlone() throws Exception {
        try (Hold one = lock.shared().acquire();
                Hold two = stranger.shared().acquire(Duration.ZERO)) {
            assertTrue(two.fence() > one.fence());
            LockInfo seen = lock.inspect();
            assertTrue(seen.held() && seen.shared());
            assertEquals(2, seen.count());
            assertTrue(seen.toString().contains("shared"), seen.toString());
            assertFalse(elsewhere(() -> lock.tryLock()));
        }
        try (Hold alone = lock.acquire()) {
            assertFalse(lock.inspect().shared());
            assertFalse(stranger.shared().tryLock());
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void theSharedLockIsOneObject() throws Exception {
        HoldfastLock seats = seats(2);
        assertSame(seats.shared(), seats.shared());
        assertSame(seats.shared(), seats.shared().shared());
        seats.shared().lock();
        elsewhere(() -> seats.shared().unlock());
        assertTrue(seats.shared().toString().contains("shared"));
    }

    @Test
    void whoCameFirstEntersFirstOfEitherKind() throws Exception {
        HoldfastLock any = seats(0);
        List<String> served = Collections.synchronizedList(new ArrayList<>());
        CyclicBarrier together = new CyclicBarrier(2);
        Hold first = any.shared().acquire();
        List<Async<Void>> waiting = new ArrayList<>();
        for (String kind : List.of("write 0", "read 1", "read 2", "write 3")) {
            boolean reads = kind.startsWith("read");
            waiting.add(
                    Async.start(
                            () -> {
                                try (Hold hold = (reads ? any.shared() : any).acquire()) {
                                    if (reads) {
                                        together.await(20, TimeUnit.SECONDS);
                                    }
                                    served.add(kind);
                                }
                                return null;
                            }));
            until(() -> any.inspect().waiters() == waiting.size());
        }
        assertFalse(any.shared().tryLock()); // a reader does not pass a writer
        first.close();
        for (Async<Void> each : waiting) {
            each.get();
        }
        assertEquals("write 0", served.get(0));
        assertEquals("write 3", served.get(3));
    }

    // -------------------------------------------------------------- Semaphores

    @Test
    void noMoreThanThePermitsAreInside() throws Exception {
        HoldfastLock seats = seats(3).shared();
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        CountDownLatch full = new CountDownLatch(3);
        List<Async<Void>> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            all.add(
                    Async.start(
                            () -> {
                                for (int round = 0; round < 10; round++) {
                                    try (Hold hold = seats.acquire()) {
                                        most.accumulateAndGet(
                                                inside.incrementAndGet(), Math::max);
                                        full.countDown();
                                        full.await(20, TimeUnit.SECONDS);
                                        inside.decrementAndGet();
                                    }
                                }
                                return null;
                            }));
        }
        for (Async<Void> each : all) {
            each.get();
        }
        assertEquals(3, most.get());
        assertFalse(seats.isLocked());
    }

    @Test
    void theLockItselfWaitsForAllPermits() throws Exception {
        HoldfastLock seats = seats(2);
        Hold one = seats.shared().acquire();
        Hold two = seats.shared().acquire();
        assertThrowsExactly(
                LockTimeoutException.class, () -> seats.shared().acquire(Duration.ZERO));
        CompletableFuture<Hold> maintenance = seats.acquireAsync(LONG);
        until(() -> seats.inspect().waiters() == 1);
        one.close();
        assertFalse(seats.shared().tryLock());
        two.close();
        try (Hold alone = maintenance.get(20, TimeUnit.SECONDS)) {
            assertFalse(seats.shared().tryLock());
        }
        assertTrue(seats.shared().tryLock());
        seats.shared().unlock();
    }

    @Test
    void wrongPermitsAreRefused() {
        for (long wrong : new long[] {-1, 10_000_000_000L}) {
            assertThrowsExactly(
                    IllegalArgumentException.class, () -> LockOptions.defaults().permits(wrong));
        }
        assertEquals(3, LockOptions.defaults().permits(3).lease(SECOND).permits());
    }

    @Test
    void aHoldThatIsNotReleasedFreesOnlyItsPermit() throws Exception {
        LockOptions brief =
                LockOptions.defaults().permits(2).lease(Duration.ofMillis(200)).renew(false);
        Hold dead = client.lock(name, brief.owner("dead")).shared().acquire();
        try (Hold alive = seats(2).shared().acquire();
                Hold next = seats(2).shared().acquire(LONG)) {
            assertFalse(dead.isValid());
            assertEquals(LossCause.EXPIRED, dead.lossCause().orElseThrow());
            alive.check();
            assertEquals(2, lock.inspect().count());
        }
        assertThrowsExactly(LockLostException.class, dead::close);
    }

    // ---------------------------------------------------------------- One owner

    @Test
    void aNestedSharedAcquirePassesAWriterThatWaits() throws Exception {
        lock.shared().lock();
        long outer = lock.shared().fence();
        CompletableFuture<Hold> writer = stranger.acquireAsync(LONG);
        until(() -> lock.inspect().waiters() == 1);
        lock.shared().lock();
        assertEquals(outer, lock.shared().fence());
        assertEquals(2, lock.shared().getHoldCount());
        assertEquals(0, lock.getHoldCount());
        assertTrue(lock.shared().isHeldByCurrentThread());
        assertFalse(lock.isHeldByCurrentThread());
        lock.shared().unlock();
        lock.shared().unlock();
        writer.get(20, TimeUnit.SECONDS).close();
    }

    @Test
    void aReadWriteLockIsThatOfItsUsers() throws Exception {
        ReadWriteLock both = lock.asReadWriteLock();
        Lock read = both.readLock();
        Lock write = both.writeLock();
        write.lock();
        CompletableFuture<Hold> next = stranger.acquireAsync(LONG);
        until(() -> lock.inspect().waiters() == 1);
        read.lock();
        write.lock(); // who holds it both ways may take it either way
        write.unlock();
        write.unlock();
        assertThrowsExactly(LockNotHeldException.class, write::unlock);
        LockInfo seen = lock.inspect();
        assertTrue(seen.shared());
        assertEquals(1, seen.waiters()); // it did not enter
        read.unlock();
        assertThrowsExactly(LockNotHeldException.class, read::unlock);
        next.get(20, TimeUnit.SECONDS).close();
        assertTrue(read.tryLock(1, TimeUnit.SECONDS));
        read.unlock();
        assertThrows(UnsupportedOperationException.class, read::newCondition);
        assertThrows(UnsupportedOperationException.class, write::newCondition);
        assertThrows(
                UnsupportedOperationException.class, () -> lock.shared().asReadWriteLock());
    }

    @Test
    void anUpgradeIsRefusedAtOnce() throws Exception {
        lock.shared().lock();
        List<Executable> upgrades =
                List.of(
                        lock::lock,
                        lock::tryLock,
                        lock::acquire,
                        () -> lock.tryLock(20, TimeUnit.SECONDS),
                        () -> lock.acquire(LONG));
        for (Executable upgrade : upgrades) {
            assertThrowsExactly(LockDeadlockException.class, upgrade);
        }
        assertEquals(
                upgrades.size(),
                client.stats().all().refused().get(RefusalCause.DEADLOCK).intValue());
        assertEquals(0, lock.inspect().waiters());
        lock.shared().unlock();
        lock.lock();
        lock.unlock();
    }

    @Test
    void aSharedHoldIsHandedOverAndKept() throws Exception {
        HoldfastLock seats = seats(2).shared();
        byte[] token = seats.acquire().handOver();
        assertThrows(IllegalArgumentException.class, () -> seats(2).adopt(token));
        try (Hold beside = seats.acquire();
                Hold adopted = seats.adopt(token)) {
            adopted.renew();
            assertEquals(2, seats.inspect().count());
        }
        seats.acquire().keep(Duration.ofMillis(200));
        try (Hold beside = seats.acquire()) {
            assertFalse(seats.tryLock());
            seats.acquire(LONG).close();
        }
    }

    // ----------------------------------------------------------- Without reentrance

    @Test
    void theFenceIsThatOfTheThreadsOwnSeat() throws Exception {
        HoldfastLock seats = seats(2).shared();
        seats.lock();
        long fence = seats.fence();
        assertTrue(elsewhere(() -> seats.tryLock()));
        assertEquals(fence, seats.fence());
        assertEquals(1, seats.getHoldCount());
        seats.unlock();
        assertFalse(seats.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, seats::fence);
        assertEquals(1, seats.inspect().count());
        seats.unlock(); // that of the other thread
        assertFalse(seats.isLocked());
    }

    @Test
    void theFenceIsThatOfThePoolThreadsOwnSeat() throws Exception {
        inAPool(this::theFenceIsThatOfTheThreadsOwnSeat);
    }

    @Test
    void aThreadWithAHoldInHandUnlocksNoOtherThreadsSeat() throws Exception {
        HoldfastLock seats = seats(2).shared();
        try (Hold mine = seats.acquire()) {
            assertTrue(elsewhere(() -> seats.tryLock()));
            assertTrue(seats.isHeldByCurrentThread());
            assertEquals(mine.fence(), seats.fence());
            assertEquals(0, seats.getHoldCount());
            assertThrowsExactly(LockNotHeldException.class, seats::unlock);
            assertEquals(2, seats.inspect().count());
        }
        seats.unlock(); // that of the other thread
        assertFalse(seats.isLocked());
    }

    @Test
    void aPoolThreadWithAHoldInHandUnlocksNoOtherThreadsSeat() throws Exception {
        inAPool(this::aThreadWithAHoldInHandUnlocksNoOtherThreadsSeat);
    }

    // ------------------------------------------------------------------- Started

    @Test
    void startedAcquiresShareItToo() throws Exception {
        HoldfastLock seats = seats(2);
        Hold one = seats.shared().acquireAsync().get(20, TimeUnit.SECONDS);
        Hold two = seats.shared().acquireAsync().get(20, TimeUnit.SECONDS);
        CompletableFuture<Hold> three = seats.shared().acquireAsync();
        CompletableFuture<Hold> four = seats.shared().acquireAsync();
        until(() -> seats.inspect().waiters() == 2);
        assertTrue(three.cancel(true));
        until(() -> seats.inspect().waiters() == 1);
        one.close();
        four.get(20, TimeUnit.SECONDS).close();
        two.close();
        assertFalse(seats.isLocked());
    }
}
