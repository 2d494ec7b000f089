package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What several locks at once must do, on a Redis or in memory. */
abstract class LocksContract extends ClientTest {
    List<String> names;
    HoldfastClient other;
    HoldfastLocks locks;

    @BeforeEach
    void name() {
        names = List.of(name + ":a", name + ":b", name + ":c");
        other = connect();
        locks = client.locksAll(names, LockOptions.defaults());
    }

    @AfterEach
    void closeOther() {
        other.close();
    }

    private boolean isFree(int... which) {
        for (int at : which) {
            if (other.lock(names.get(at)).isLocked()) {
                return false;
            }
        }
        return true;
    }

    private long waiting() {
        return other.lock(names.get(2)).inspect().waiters();
    }

    @Test
    void anInterruptThatMeetsTheGrantLeavesNothingHeld() throws Exception {
        Holds granted = locks.acquireAsync().get(20, TimeUnit.SECONDS);
        HoldfastLocks met =
                new HoldfastLocks(
                        names,
                        (timeout, waits) -> {
                            Thread.currentThread().interrupt();
                            return new CompletableFuture<>() {
                                @Override
                                public boolean cancel(boolean mayInterrupt) {
                                    complete(granted);
                                    return super.cancel(mayInterrupt);
                                }
                            };
                        });
        assertThrows(InterruptedException.class, met::acquire);
        until(() -> isFree(0, 1, 2));
    }

    @Test
    void anErrorOfOneHoldKeepsNoOtherHeld() throws Exception {
        OutOfMemoryError full = new OutOfMemoryError("in a test"); // the JVM throws the same again
        Hold failing =
                (Hold)
                        java.lang.reflect.Proxy.newProxyInstance(
                                Hold.class.getClassLoader(),
                                new Class<?>[] {Hold.class},
                                (proxy, method, args) -> {
                                    throw full;
                                });
        Map<String, Hold> mixed = new LinkedHashMap<>();
        mixed.put("first", failing);
        mixed.put("second", failing);
        mixed.putAll(locks.acquire(LONG).holds());
        assertSame(full, assertThrowsExactly(full.getClass(), () -> new Holds(mixed).close()));
        assertTrue(isFree(0, 1, 2));
    }

    @Test
    void namesThatDifferOnlyInBytesThatAreNotUtf8AreTwo() throws Exception {
        List<HoldfastLock> two = new ArrayList<>();
        for (char last : new char[] {'\u00ff', '\u00fe'}) {
            two.add(client.lock((name + last).getBytes(StandardCharsets.ISO_8859_1)));
        }
        Holds holds = client.locksAll(two).acquire(LONG);
        assertEquals(
                List.of(name + "\\xff", name + "\\xfe"), List.copyOf(holds.holds().keySet()));
        List<Long> fences = List.copyOf(holds.fences().values());
        assertEquals(fences.get(0), two.get(0).inspect().fence());
        assertEquals(fences.get(1), two.get(1).inspect().fence());
        assertTrue(fences.get(1) < fences.get(0), "in the order of their bytes");
        holds.close();
        assertFalse(two.get(0).isLocked() || two.get(1).isLocked());
        two.set(1, client.lock((name + "\u00ff").getBytes(StandardCharsets.ISO_8859_1)));
        assertThrows(IllegalArgumentException.class, () -> client.locksAll(two));
    }

    @Test
    void allAreHeldAndEachHasItsFence() throws Exception {
        List<String> mixed = List.of(names.get(2), names.get(0), names.get(1));
        Holds holds = client.locksAll(mixed, LockOptions.defaults()).acquire(LONG);
        Map<String, Long> fences = holds.fences();
        assertEquals(mixed, List.copyOf(fences.keySet()));
        assertEquals(mixed, List.copyOf(holds.holds().keySet()));
        for (String each : names) {
            assertEquals(other.lock(each).inspect().fence(), fences.get(each));
        }
        assertTrue(fences.get(names.get(0)) < fences.get(names.get(1)), "in the order of names");
        assertTrue(fences.get(names.get(1)) < fences.get(names.get(2)));
        assertTrue(holds.isValid());
        assertTrue(holds.remaining().compareTo(SECOND) > 0);
        holds.renew();
        holds.check();
        holds.close();
        assertFalse(holds.isValid());
        assertEquals(Optional.empty(), holds.lossCause());
        assertTrue(isFree(0, 1, 2));
        holds.close(); // does nothing
    }

    @Test
    void oneThatIsBusyLeavesNothing() throws Exception {
        Hold busy = other.lock(names.get(1)).acquire();
        for (Duration timeout : List.of(Duration.ZERO, Duration.ofMillis(20))) {
            assertThrowsExactly(LockTimeoutException.class, () -> locks.acquire(timeout));
            assertTrue(isFree(0, 2));
            CompletableFuture<Holds> started = locks.acquireAsync(timeout);
            ExecutionException failed =
                    assertThrows(ExecutionException.class, () -> started.get(20, TimeUnit.SECONDS));
            assertSame(LockTimeoutException.class, failed.getCause().getClass());
            assertTrue(isFree(0, 2));
        }
        busy.close();
        locks.acquire(Duration.ZERO).close();
        locks.acquireAsync().get(20, TimeUnit.SECONDS).close();
    }

    @Test
    void locksOfMixedKindsAreHeldTogether() throws Exception {
        LockOptions three = LockOptions.defaults().permits(3);
        HoldfastLock read = client.lock(names.get(1)).shared();
        HoldfastLock seat = client.lock(names.get(2), three).shared(2);
        HoldfastLocks mixed = client.locksAll(List.of(seat, client.lock(names.get(0)), read));
        HoldfastLock reader = other.lock(names.get(1)).shared();
        HoldfastLock seated = other.lock(names.get(2), three).shared();
        try (Hold beside = reader.acquire();
                Hold one = seated.acquire();
                Holds holds = mixed.acquire(Duration.ZERO)) {
            assertEquals(
                    List.of(names.get(2), names.get(0), names.get(1)),
                    List.copyOf(holds.fences().keySet()));
            assertEquals(2, read.inspect().count());
            assertEquals(2, seat.inspect().count()); // of which one takes two
            assertThrowsExactly(
                    LockTimeoutException.class, () -> seated.acquire(Duration.ZERO));
            assertThrowsExactly(
                    LockTimeoutException.class,
                    () -> other.lock(names.get(0)).acquire(Duration.ZERO));
        }
        try (Hold writer = other.lock(names.get(1)).acquire()) {
            assertThrowsExactly(LockTimeoutException.class, () -> mixed.acquire(Duration.ZERO));
            assertTrue(isFree(0, 2));
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> client.locksAll(List.of(read, client.lock(read.getName()))));
        assertThrows(IllegalArgumentException.class, () -> client.locksAll(List.of(read, seated)));
    }

    @Test
    void wrongNamesAndTimeoutsAreRefused() {
        assertThrows(IllegalArgumentException.class, () -> client.locksAll());
        assertThrows(IllegalArgumentException.class, () -> client.locksAll("a", "b", "a"));
        assertThrows(IllegalArgumentException.class, () -> client.locksAll("a", ""));
        String[] many = new String[101];
        for (int i = 0; i < many.length; i++) {
            many[i] = "n" + i;
        }
        assertThrows(IllegalArgumentException.class, () -> client.locksAll(many));
        assertThrows(IllegalArgumentException.class, () -> locks.acquire(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> locks.acquireAsync(SECOND.negated()));
    }

    @Test
    void losingOneIsLosingAll() throws Exception {
        Holds holds = locks.acquire();
        AtomicInteger told = new AtomicInteger();
        AtomicReference<Holds> which = new AtomicReference<>();
        holds.onLost(
                lost -> {
                    which.set(lost);
                    told.incrementAndGet();
                });
        assertTrue(other.lock(names.get(1)).forceUnlock());
        assertThrowsExactly(LockLostException.class, holds::check);
        assertFalse(holds.isValid());
        assertEquals(Optional.of(LossCause.GONE), holds.lossCause());
        assertEquals(Duration.ZERO, holds.remaining());
        for (Hold each : holds.holds().values()) {
            assertEquals(Optional.of(LossCause.GONE), each.lossCause());
        }
        until(() -> isFree(0, 1, 2));
        until(() -> which.get() == holds);
        LockLostException lost = assertThrowsExactly(LockLostException.class, holds::close);
        assertEquals(2, lost.getSuppressed().length);
        assertEquals(1, told.get());
    }

    @Test
    void oneReleasedByHandLeavesTheOthers() throws Exception {
        try (Holds holds = locks.acquire()) {
            holds.holds().get(names.get(0)).close();
            assertFalse(holds.isValid());
            assertTrue(isFree(0));
            assertFalse(isFree(1));
            assertEquals(Optional.empty(), holds.lossCause());
        }
        assertTrue(isFree(0, 1, 2));
    }

    @Test
    void leasesThatEndWhileTheLastIsAwaitedAreTakenAgain() throws Exception {
        LockOptions brief = LockOptions.defaults().lease(Duration.ofMillis(300)).renew(false);
        Hold busy = other.lock(names.get(2)).acquire();
        Async<Long> waits =
                Async.start(
                        () -> {
                            Holds holds = client.locksAll(names, brief).acquire(LONG);
                            try {
                                holds.close();
                            } catch (LockLostException late) {
                                assertTrue(holds.lossCause().isPresent()); // a slow machine
                            }
                            return holds.fences().get(names.get(0));
                        });
        until(() -> !isFree(0));
        until(() -> isFree(0, 1));
        long seen = busy.fence();
        busy.close();
        assertTrue(waits.get() > seen);
    }

    @Test
    void aTimeoutNamesTheLockThatWasBusy() throws Exception {
        try (Hold busy = other.lock(names.get(1)).acquire()) {
            HoldfastLocks both = client.locksAll(names.get(2), names.get(1), names.get(0));
            LockTimeoutException late =
                    assertThrows(
                            LockTimeoutException.class, () -> both.acquire(Duration.ofMillis(20)));
            assertEquals(names.get(1), late.name());
            assertEquals(Duration.ofMillis(20), late.waited());
            assertEquals(busy.fence(), late.holders().get(0).fence());
        }
    }

    @Test
    void aThreadThatHoldsOneOfThemDoesNotWaitForItself() throws Exception {
        try (Hold own = client.lock(names.get(1)).acquire();
                Hold busy = other.lock(names.get(0)).acquire()) {
            assertThrows(LockTimeoutException.class, () -> locks.acquire(Duration.ofMillis(20)));
            busy.close();
            assertThrows(LockDeadlockException.class, () -> locks.acquire());
            assertTrue(isFree(0, 2));
        }
        assertTrue(isFree(0, 1, 2));
    }

    @Test
    void anInterruptEndsTheWaitAndLeavesNothing() throws Exception {
        Hold busy = other.lock(names.get(2)).acquire();
        Async<Holds> waits = Async.start(() -> locks.acquire());
        until(() -> !isFree(1));
        waits.thread.interrupt();
        assertThrowsExactly(InterruptedException.class, waits::get);
        until(() -> isFree(0, 1));
        busy.close();
    }

    @Test
    void aCancelledFutureLeavesNothing() throws Exception {
        Hold busy = other.lock(names.get(2)).acquire();
        CompletableFuture<Holds> waits = locks.acquireAsync();
        until(() -> !isFree(1));
        assertTrue(waits.cancel(true));
        until(() -> isFree(0, 1));
        busy.close();
        until(() -> isFree(2));
    }

    @Test
    void aFutureThatIsGivenUpLeavesNothing() throws Exception {
        Hold busy = other.lock(names.get(2)).acquire();
        CompletableFuture<Holds> waits = locks.acquireAsync();
        until(() -> !isFree(1));
        assertTrue(waits.completeExceptionally(new TimeoutException("as by orTimeout()")));
        until(() -> isFree(0, 1));
        until(() -> waiting() == 0);
        busy.close();
    }

    @Test
    void aClosedClientEndsTheWaitsAndLeavesNothing() throws Exception {
        Hold busy = other.lock(names.get(2)).acquire();
        HoldfastClient brief = connect();
        HoldfastLocks its = brief.locksAll(names, LockOptions.defaults());
        CompletableFuture<Holds> future = its.acquireAsync();
        until(() -> !isFree(1));
        Async<Holds> thread = Async.start(() -> brief.locksAll(names.get(2)).acquire());
        until(() -> waiting() == 2);
        brief.close();
        assertThrowsExactly(ClosedException.class, thread::get);
        ExecutionException failed =
                assertThrowsExactly(
                        ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS));
        assertEquals(ClosedException.class, failed.getCause().getClass());
        until(() -> isFree(0, 1));
        busy.close();
    }

    @Test
    void allAreKept() throws Exception {
        Holds holds = locks.acquire();
        holds.keep(Duration.ofMillis(200));
        assertFalse(holds.isValid());
        assertThrowsExactly(
                LockNotHeldException.class, () -> holds.keep(Duration.ofMillis(200)));
        until(() -> isFree(0, 1, 2));
    }

    @Test
    void threadsAndFuturesInAllOrdersDoNotDeadlock() throws Exception {
        Map<String, AtomicInteger> inside = new ConcurrentHashMap<>();
        names.forEach(each -> inside.put(each, new AtomicInteger()));
        List<Async<Void>> all = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            int number = i;
            all.add(Async.start(() -> takeTurns(number, inside)));
        }
        for (Async<Void> each : all) {
            each.get();
        }
        assertTrue(isFree(0, 1, 2));
    }

    private Void takeTurns(int number, Map<String, AtomicInteger> inside) throws Exception {
        List<String> mine = new ArrayList<>(names);
        Collections.shuffle(mine, new Random(number));
        mine = mine.subList(0, 2 + number % 2);
        HoldfastClient through = number % 3 == 0 ? client : other;
        HoldfastLocks mixed = through.locksAll(mine, LockOptions.defaults());
        for (int turn = 0; turn < 10; turn++) {
            try (Holds holds =
                    number % 2 == 0
                            ? mixed.acquire(LONG)
                            : mixed.acquireAsync(LONG).get(20, TimeUnit.SECONDS)) {
                mine.forEach(each -> assertEquals(1, inside.get(each).incrementAndGet()));
                mine.forEach(each -> inside.get(each).decrementAndGet());
                assertEquals(mine, List.copyOf(holds.fences().keySet()));
            }
        }
        return null;
    }
}
