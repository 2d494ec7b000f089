package io.holdfast;

import static io.holdfast.Async.elsewhere;
import static io.holdfast.Async.inAPool;
import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.internal.core.Bytes;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a lock must do, on a Redis or in memory. */
abstract class LockContract extends ClientTest {

    @Test
    void aFreeLockIsAcquiredAndReleased() throws Exception {
        Hold hold = lock.acquire(SECOND);
        assertTrue(lock.isLocked());
        assertTrue(lock.isLocked());
        assertTrue(hold.isValid());
        assertEquals(1, hold.votes());
        assertTrue(hold.fence() > 0);
        long fence = hold.fence();
        hold.close();
        assertFalse(lock.isLocked());
        assertFalse(lock.isLocked());
        assertFalse(hold.isValid());
        assertEquals(0, hold.votes());
        assertEquals(1, hold.masters());
        assertEquals(Duration.ZERO, hold.remaining());
        assertEquals(fence, hold.fence());
    }

    @Test
    void theMethodsOfLockAcquireAndRelease() throws Exception {
        for (Executable acquire :
                List.<Executable>of(
                        lock::lock,
                        lock::lockInterruptibly,
                        () -> assertTrue(lock.tryLock()),
                        () -> assertTrue(lock.tryLock(1, TimeUnit.SECONDS)))) {
            assertDoesNotThrow(acquire);
            assertTrue(lock.isLocked());
            assertTrue(lock.isHeldByCurrentThread());
            assertEquals(1, lock.getHoldCount());
            lock.unlock();
            assertFalse(lock.isLocked());
            assertFalse(lock.isHeldByCurrentThread());
            assertEquals(0, lock.getHoldCount());
        }
    }

    @Test
    void aHeldLockIsBusyAtOnce() throws Exception {
        lock.lock();
        long start = System.nanoTime();
        assertFalse(stranger.tryLock());
        assertFalse(stranger.tryLock(0, TimeUnit.SECONDS));
        assertFalse(stranger.tryLock(-1, TimeUnit.SECONDS));
        assertFalse(stranger.tryLock(Long.MIN_VALUE, TimeUnit.DAYS));
        assertThrows(LockTimeoutException.class, () -> stranger.acquire(Duration.ZERO));
        assertInTime(start);
        assertFalse(stranger.isHeldByCurrentThread());
        lock.unlock();
        assertTrue(stranger.tryLock());
        stranger.unlock();
    }

    @Test
    void anAcquireTimesOutInItsTimeAndLeavesNothingBehind() throws Exception {
        lock.lock();
        LockInfo before = lock.inspect();
        for (int millis : new int[] {1, 49, 50, 51, 130}) {
            long start = System.nanoTime();
            assertFalse(stranger.tryLock(millis, TimeUnit.MILLISECONDS));
            assertTrue(System.nanoTime() - start >= millis * 1_000_000L, "early");
            assertInTime(start);

            start = System.nanoTime();
            LockTimeoutException timeout =
                    assertThrows(
                            LockTimeoutException.class,
                            () -> stranger.acquire(Duration.ofMillis(millis)));
            assertTrue(System.nanoTime() - start >= millis * 1_000_000L, "early");
            assertTrue(timeout.getMessage().contains(name.substring(0, 30)));
            assertEquals(name, timeout.name());
            assertEquals(Duration.ofMillis(millis), timeout.waited());
            assertEquals(before.fence(), timeout.holders().get(0).fence());
        }
        assertEquals(before.fence(), lock.inspect().fence());
        assertEquals(0, lock.inspect().waiters());
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void aWaitingAcquireGetsTheLockWhenItIsReleased() throws Exception {
        Hold first = lock.acquire();
        Async<Long> waiting = Async.start(() -> stranger.acquire(LONG).fence());
        until(() -> lock.inspect().waiters() == 1);
        first.release();
        assertTrue(waiting.get() > first.fence());
        assertEquals("stranger", lock.inspect().ownerText());
    }

    @Test
    void theQueueSaysWhoWaitsAndForHowLong() throws Exception {
        assertEquals(List.of(), lock.inspect().queue());
        Hold first = lock.acquire();
        Async<Long> waiting = Async.start(() -> stranger.acquire(LONG).fence());
        until(() -> lock.inspect().waiters() == 1);
        CompletableFuture<Hold> next = lock.acquireAsync();
        until(() -> lock.inspect().waiters() == 2);
        List<LockWaiter> waiters = lock.inspect().queue();
        assertEquals(1, lock.inspect(1).queue().size());
        assertEquals("stranger", waiters.get(0).ownerText());
        assertEquals(LONG, waiters.get(0).timeout());
        assertEquals(Hold.FOREVER, waiters.get(1).timeout());
        for (int i = 0; i < 2; i++) {
            int place = i;
            Duration longer = waiters.get(i).waited().plusMillis(10);
            until(() -> lock.inspect().queue().get(place).waited().compareTo(longer) > 0);
        }
        first.release();
        waiting.get();
        next.cancel(true);
    }

    @Test
    void aHolderIsTakenAwayByItsFence() throws Exception {
        Hold hold = lock.acquire();
        assertFalse(stranger.forceUnlock(hold.fence() - 1));
        assertTrue(hold.isValid());
        assertTrue(stranger.forceUnlock(hold.fence()));
        assertFalse(lock.isLocked());
        Hold next = stranger.acquire();
        assertFalse(lock.forceUnlock(hold.fence()));
        assertTrue(lock.isLocked());
        next.release();
    }

    @Test
    void anAcquireWithoutATimeoutWaits() throws Exception {
        lock.lock();
        List<Async<?>> waiters =
                List.of(
                        Async.start(() -> stranger.acquire().isValid()),
                        Async.start(() -> stranger.acquire(Hold.FOREVER).isValid()),
                        Async.start(() -> stranger.tryLock(Long.MAX_VALUE, TimeUnit.DAYS)),
                        Async.start(
                                () -> {
                                    stranger.lock();
                                    return true;
                                }),
                        Async.start(
                                () -> {
                                    stranger.lockInterruptibly();
                                    return true;
                                }));
        until(() -> lock.inspect().waiters() == waiters.size());
        for (Async<?> waiter : waiters) {
            assertTrue(waiter.isRunning());
        }
        lock.unlock();
        for (Async<?> waiter : waiters) {
            assertEquals(true, waiter.get());
        }
    }

    @Test
    void threadsExcludeEachOther() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        List<Long> fences = new ArrayList<>();
        List<Async<Void>> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            threads.add(
                    Async.start(
                            () -> {
                                for (int j = 0; j < 20; j++) {
                                    try (Hold hold = lock.acquire(LONG)) {
                                        assertEquals(1, inside.incrementAndGet());
                                        fences.add(hold.fence());
                                        inside.decrementAndGet();
                                    }
                                }
                                return null;
                            }));
        }
        for (Async<Void> thread : threads) {
            thread.get();
        }
        assertEquals(160, fences.size());
        assertEquals(fences.stream().sorted().distinct().toList(), fences);
    }

    @Test
    void anOwnerMayNestThreeDeep() throws Exception {
        try (Hold outer = stranger.acquire();
                Hold middle = stranger.acquire(SECOND);
                Hold inner = stranger.acquire(Duration.ZERO)) {
            assertEquals(outer.fence(), middle.fence());
            assertEquals(outer.fence(), inner.fence());
            assertEquals(3, lock.inspect().count());
        }
        assertFalse(lock.isLocked());

        for (int count = 1; count <= 3; count++) {
            lock.lock();
            assertEquals(count, lock.getHoldCount());
        }
        for (int count = 2; count >= 1; count--) {
            lock.unlock();
            assertEquals(count, lock.getHoldCount());
            assertFalse(stranger.tryLock());
        }
        lock.unlock();
        assertTrue(stranger.tryLock());
    }

    /** As three callbacks of one event loop, or the next job of a pool's thread. */
    @Test
    void aHoldNestsInNoOtherOfItsThread() throws Exception {
        Hold first = lock.acquire();
        for (Executable wait :
                List.<Executable>of(
                        lock::acquire,
                        lock::lock,
                        client.lock(name)::lockInterruptibly,
                        () -> lock.acquire(LONG),
                        () -> lock.tryLock(20, TimeUnit.SECONDS),
                        () -> lock.shared().acquire(),
                        () -> lock.shared().lock())) {
            LockDeadlockException refused = assertThrowsExactly(LockDeadlockException.class, wait);
            assertTrue(refused.getMessage().contains("would wait for itself"), refused.getMessage());
        }
        assertFalse(lock.tryLock());
        assertFalse(lock.shared().tryLock());
        assertThrowsExactly(LockTimeoutException.class, () -> lock.acquire(Duration.ZERO));
        assertEquals(1, lock.inspect().count());
        assertEquals(0, lock.inspect().waiters());
        CompletableFuture<Hold> next = lock.acquireAsync();
        until(() -> lock.inspect().waiters() == 1);
        first.close();
        elsewhere(() -> next.get(20, TimeUnit.SECONDS)).close();
        lock.lock();
        assertThrowsExactly(LockDeadlockException.class, lock::acquire);
        assertThrowsExactly(LockDeadlockException.class, () -> lock.shared().acquire(LONG));
        lock.unlock();
        lock.shared().lock();
        assertThrowsExactly(LockDeadlockException.class, () -> lock.acquire(LONG));
        lock.shared().unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void aReleaseTooManyIsRefused() {
        lock.lock();
        lock.unlock();
        assertThrowsExactly(LockNotHeldException.class, lock::unlock);
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertFalse(lock.isLocked());
    }

    @Test
    void everyThreadIsAnOwner() throws Exception {
        lock.lock();
        assertFalse(elsewhere(() -> lock.tryLock()));
        assertFalse(elsewhere(lock::isHeldByCurrentThread));
        assertEquals(0, elsewhere(lock::getHoldCount));
        assertTrue(elsewhere(lock::isLocked));
    }

    @Test
    void anyLockObjectOfTheNameMayRelease() {
        lock.lock();
        client.lock(name).unlock();
        assertFalse(lock.isLocked());
        lock.lock();
        client.lock(name.getBytes(StandardCharsets.UTF_8)).unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void aHoldInHandIsNotWhatUnlockReleases() throws Exception {
        try (Hold hold = lock.acquire()) {
            assertEquals(0, lock.getHoldCount());
            assertThrowsExactly(LockNotHeldException.class, lock::unlock);
            hold.check();
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aHoldMayBeReleasedByAnyThread() throws Exception {
        Hold hold = lock.acquire();
        elsewhere(
                () -> {
                    hold.release();
                    return null;
                });
        assertFalse(hold.isValid());
        assertFalse(lock.isLocked());
    }

    @Test
    void aHoldIsReleasedOnce() throws Exception {
        Hold hold = lock.acquire();
        hold.release();
        for (Executable use :
                List.<Executable>of(
                        () -> hold.release(),
                        hold::renew,
                        hold::check,
                        () -> hold.extend(SECOND))) {
            assertThrowsExactly(LockNotHeldException.class, use);
        }
        hold.close();
        hold.close();
    }

    @Test
    void aHoldOfAClosedClientSaysSoOnce() throws Exception {
        Hold hold = lock.acquire();
        client.close();
        assertFalse(hold.isValid());
        assertThrowsExactly(ClosedException.class, hold::check);
        assertThrowsExactly(ClosedException.class, hold::close);
        hold.close();
    }

    @Test
    void holdsMayEndInAnyOrder() throws Exception {
        Hold first = stranger.acquire();
        Hold second = stranger.acquire();
        first.close();
        assertFalse(lock.tryLock());
        second.check();
        second.close();
        assertFalse(lock.isLocked());
    }

    @Test
    void releaseByAnotherOwnerIsRefused() throws Exception {
        lock.lock();
        LockInfo before = lock.inspect();
        assertThrowsExactly(LockNotHeldException.class, stranger::unlock);
        assertThrowsExactly(LockNotHeldException.class, () -> elsewhere(lock::unlock));
        assertEquals(before.fence(), lock.inspect().fence());
        lock.unlock();
    }

    @Test
    void equalOwnersAreOneOwnerEverywhere() throws Exception {
        LockOptions text = LockOptions.defaults().owner("worker");
        LockOptions bytes = LockOptions.defaults().owner("worker".getBytes(StandardCharsets.UTF_8));
        try (HoldfastClient other = connect()) {
            HoldfastLock here = client.lock(name, text);
            HoldfastLock there = other.lock(name, bytes);
            here.lock();
            elsewhere(
                    () -> {
                        assertTrue(there.tryLock());
                        assertEquals(2, there.inspect().count());
                        assertEquals(1, there.getHoldCount());
                        there.unlock();
                    });
            elsewhere(here::unlock);
            assertFalse(here.isLocked());
        }
    }

    @Test
    void withoutReentranceEveryAcquireIsItsOwnOwner() throws Exception {
        HoldfastLock mutex = client.lock(name, LockOptions.defaults().reentrant(false));
        mutex.lock();
        assertFalse(mutex.tryLock());
        assertFalse(mutex.tryLock(30, TimeUnit.MILLISECONDS));
        assertEquals(1, mutex.getHoldCount());
        elsewhere(mutex::unlock);
        assertTrue(mutex.tryLock());
        mutex.unlock();
        assertThrows(IllegalMonitorStateException.class, mutex::unlock);
    }

    @Test
    void withoutReentranceAnExplicitOwnerExcludesItself() {
        LockOptions options = LockOptions.defaults().reentrant(false).owner("me");
        HoldfastLock mutex = client.lock(name, options);
        mutex.lock();
        assertFalse(mutex.tryLock());
        assertFalse(client.lock(name, options).tryLock());
        mutex.unlock();
        assertFalse(mutex.isLocked());
    }

    @Test
    void checkChangesNothing() throws Exception {
        try (Hold hold = lock.acquire()) {
            LockInfo before = lock.inspect();
            hold.check();
            assertEquals(before.fence(), lock.inspect().fence());
        }
    }

    @Test
    void aLeaseEndsAndAnotherTakesOverAndTheStaleHolderChangesNothing() throws Exception {
        HoldfastLock brief =
                client.lock(
                        name,
                        LockOptions.defaults()
                                .lease(Duration.ofMillis(200))
                                .renew(false)
                                .owner("me"));
        Hold stale = brief.acquire();
        brief.lock();
        Hold next = stranger.acquire(LONG);
        assertTrue(next.fence() > stale.fence());
        LockInfo before = lock.inspect();

        assertFalse(stale.isValid());
        assertEquals(Duration.ZERO, stale.remaining());
        assertFalse(brief.isHeldByCurrentThread());
        assertThrows(LockLostException.class, stale::check);
        assertThrows(LockLostException.class, stale::renew);
        assertThrows(LockLostException.class, () -> stale.extend(SECOND));
        assertThrows(LockLostException.class, stale::handOver);
        assertThrows(LockLostException.class, () -> stale.release());
        LockLostException lost = assertThrows(LockLostException.class, brief::unlock);
        assertEquals(Optional.of(LossCause.EXPIRED), lost.lossCause());
        assertThrowsExactly(LockNotHeldException.class, brief::unlock);
        assertEquals(before.fence(), lock.inspect().fence());
        next.check();
        next.close();
    }

    @Test
    void aHoldIsHandedOverByAToken() throws Exception {
        Hold hold = lock.acquire();
        byte[] token = hold.handOver();
        assertFalse(hold.isValid());
        assertThrowsExactly(LockNotHeldException.class, hold::handOver);
        assertThrowsExactly(LockNotHeldException.class, () -> hold.release());
        hold.close();
        assertTrue(lock.isLocked());
        try (HoldfastClient other = connect()) {
            HoldfastLock there = other.lock(name);
            for (byte[] wrong : new byte[][] {{}, {0}, "no token".getBytes(), new byte[9999]}) {
                assertThrows(IllegalArgumentException.class, () -> there.adopt(wrong));
            }
            IllegalArgumentException another =
                    assertThrows(
                            IllegalArgumentException.class,
                            () -> other.lock(name + ":b").adopt(token));
            assertTrue(another.getMessage().contains("a token of "), another.getMessage());
            try (Hold adopted = there.adopt(token)) {
                assertEquals(hold.fence(), adopted.fence());
                adopted.check();
                assertFalse(stranger.tryLock());
            }
            assertFalse(lock.isLocked());
            assertThrows(LockLostException.class, () -> there.adopt(token));
            assertThrows(NullPointerException.class, () -> there.adopt(null));
        }
        Hold gone = lock.acquire();
        client.close();
        assertThrows(ClosedException.class, gone::handOver);
    }

    @Test
    void aKeptHoldRefusesEverybodyAndThenEndsByItself() throws Exception {
        Hold hold = lock.acquire();
        assertThrows(IllegalArgumentException.class, () -> hold.keep(Duration.ofDays(36500)));
        assertThrows(IllegalArgumentException.class, () -> hold.keep(Duration.ofMillis(-1)));
        assertTrue(hold.isValid());
        hold.keep(Duration.ofMinutes(1));
        assertEquals(1, client.stats().all().kept());
        assertFalse(hold.isValid());
        assertTrue(hold.lossCause().isEmpty());
        assertEquals(Duration.ZERO, hold.remaining());
        assertThrowsExactly(LockNotHeldException.class, () -> hold.keep(Duration.ofMinutes(1)));
        assertThrowsExactly(LockNotHeldException.class, () -> hold.release());
        hold.close();
        assertFalse(lock.tryLock(), "nor does its owner nest in it");
        assertFalse(stranger.tryLock());
        assertTrue(stranger.inspect().remaining().toSeconds() > 30);
        assertTrue(stranger.forceUnlock());

        stranger.acquire().keep(Duration.ofMillis(50));
        stranger.acquire().keep(Duration.ZERO);
        Hold gone = stranger.acquire();
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, () -> gone.keep(Duration.ofMinutes(1)));
    }

    @Test
    void aThreadUnlocksItsOwnHoldBeforeThatOfAnother() throws Exception {
        HoldfastLock both = client.lock(name, LockOptions.defaults().reentrant(false));
        both.lock();
        assertTrue(stranger.forceUnlock());
        assertTrue(elsewhere(() -> both.tryLock()));
        assertThrowsExactly(LockLostException.class, both::unlock);
        assertTrue(both.inspect().held());
        both.unlock(); // this thread has none any more
        assertFalse(both.inspect().held());
    }

    @Test
    void aThreadOfAPoolUnlocksItsOwnHoldBeforeThatOfAnother() throws Exception {
        inAPool(this::aThreadUnlocksItsOwnHoldBeforeThatOfAnother);
    }

    @Test
    void withoutReentranceAThreadHoldsOnlyWhatItLocked() throws Exception {
        HoldfastLock mutex = client.lock(name, LockOptions.defaults().reentrant(false));
        mutex.lock();
        assertTrue(mutex.isHeldByCurrentThread());
        assertEquals(1, mutex.getHoldCount());
        assertEquals(mutex.inspect().fence(), mutex.fence());
        elsewhere(
                () -> {
                    assertHoldsNothing(mutex);
                    mutex.unlock(); // any thread may
                });
        assertHoldsNothing(mutex);

        assertTrue(elsewhere(() -> mutex.tryLock()));
        assertHoldsNothing(mutex);
        mutex.unlock();
        assertTrue(mutex.tryLock(1, TimeUnit.SECONDS));
        assertEquals(1, mutex.getHoldCount());
        mutex.unlock();
        assertFalse(mutex.isLocked());
    }

    @Test
    void withoutReentranceAThreadThatLostItsHoldHasNotThatOfAnother() throws Exception {
        LockOptions options =
                LockOptions.defaults().reentrant(false).renew(false).lease(Duration.ofMillis(50));
        HoldfastLock brief = client.lock(name, options);
        brief.lock();
        until(() -> !brief.isHeldByCurrentThread());
        assertTrue(elsewhere(() -> brief.tryLock(LONG, Duration.ofMinutes(1))));
        assertHoldsNothing(brief);
        assertThrowsExactly(LockLostException.class, brief::unlock);
        assertHoldsNothing(brief);
        assertTrue(brief.isLocked());
        brief.unlock(); // that of the other thread
        assertFalse(brief.isLocked());
    }

    private static void assertHoldsNothing(HoldfastLock mutex) {
        assertFalse(mutex.isHeldByCurrentThread());
        assertEquals(0, mutex.getHoldCount());
        assertThrowsExactly(LockNotHeldException.class, mutex::fence);
    }

    @Test
    void aThreadOfAPoolHoldsOnlyWhatItLocked() throws Exception {
        inAPool(this::withoutReentranceAThreadHoldsOnlyWhatItLocked);
        inAPool(this::withoutReentranceAThreadThatLostItsHoldHasNotThatOfAnother);
    }

    @Test
    void aMutexOfAClosedClientIsNotHeld() throws Exception {
        HoldfastLock mutex = client.lock(name, LockOptions.defaults().reentrant(false));
        mutex.lock();
        inAPool(
                () -> {
                    assertTrue(mutex.isLocked());
                    client.close();
                    assertHoldsNothing(mutex);
                    assertThrowsExactly(ClosedException.class, mutex::unlock);
                });
        assertHoldsNothing(mutex);
        assertThrowsExactly(ClosedException.class, mutex::unlock);
    }

    @Test
    void aReleaseKeepsTheLockForAtLeast() throws Exception {
        Duration minute = Duration.ofMinutes(1);
        Hold released = lock.acquire();
        assertThrows(
                IllegalArgumentException.class, () -> released.keepAtLeast(minute.negated()));
        assertThrows(
                IllegalArgumentException.class,
                () -> released.keepAtLeast(Duration.ofDays(36500)));
        released.keepAtLeast(minute);
        Thread.sleep(20); // that much less is left
        released.release();
        assertRefusedForTheRest(released);

        Hold[] failed = new Hold[1];
        assertThrowsExactly(
                IllegalStateException.class,
                () -> {
                    try (Hold hold = lock.acquire()) {
                        failed[0] = hold;
                        hold.keepAtLeast(minute);
                        Thread.sleep(20); // that much less is left
                        throw new IllegalStateException();
                    }
                });
        assertRefusedForTheRest(failed[0]);

        Hold async = lock.acquire();
        async.keepAtLeast(minute);
        Thread.sleep(20); // that much less is left
        async.releaseAsync().get(20, TimeUnit.SECONDS);
        assertRefusedForTheRest(async);
    }

    private void assertRefusedForTheRest(Hold hold) {
        assertFalse(hold.isValid());
        assertTrue(hold.lossCause().isEmpty());
        hold.close();
        Duration left = stranger.inspect().remaining();
        assertTrue(left.toSeconds() > 30 && left.toMillis() <= 59_980, left.toString());
        assertFalse(stranger.tryLock());
        assertFalse(lock.tryLock(), "nor does its owner nest in it");
        assertTrue(stranger.forceUnlock());
    }

    @Test
    void atLeastIsOverWhenItHasPassed() throws Exception {
        try (Hold hold = lock.acquire()) {
            hold.keepAtLeast(Duration.ofMillis(20));
            Thread.sleep(30);
        }
        assertFalse(lock.isLocked());
        try (Hold hold = lock.acquire()) {
            hold.keepAtLeast(Duration.ofMinutes(1));
            hold.keepAtLeast(Duration.ZERO);
        }
        assertFalse(lock.isLocked());
        Hold lost = lock.acquire();
        lost.keepAtLeast(Duration.ofMinutes(1));
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, lost::close);
        lost.close();
        assertFalse(lock.isLocked());
    }

    @Test
    void forceUnlockTakesTheLockAway() throws Exception {
        assertFalse(lock.forceUnlock(), "free");
        Hold hold = lock.acquire();
        assertTrue(stranger.forceUnlock());
        assertFalse(lock.isLocked());
        assertTrue(stranger.tryLock());
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, () -> hold.release());
        stranger.unlock();
    }

    @Test
    void conditionsAreUnsupported() {
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void theCallerHoldsWhatItHasInHand() throws Exception {
        assertFalse(lock.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, lock::fence);
        lock.lock();
        long fence = lock.fence();
        assertEquals(fence, lock.inspect().fence());
        lock.unlock();
        assertThrowsExactly(LockNotHeldException.class, lock::fence);

        Hold first = lock.acquire();
        assertTrue(lock.isHeldByCurrentThread());
        assertTrue(first.fence() > fence);
        assertEquals(first.fence(), lock.fence());
        assertFalse(stranger.isHeldByCurrentThread());
        assertEquals(0, lock.getHoldCount());
        elsewhere(
                () -> {
                    first.release();
                    return null;
                });
        assertFalse(lock.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, lock::fence);
        Hold last = lock.acquire();
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, last::check);
        assertFalse(lock.isHeldByCurrentThread());
    }

    @Test
    void theLeaseIsTenSecondsIfNoneIsAskedFor() throws Exception {
        try (Hold hold = lock.acquire()) {
            assertBetween(5_000, lock.inspect().remaining().toMillis(), 10_000);
            assertBetween(5_000, hold.remaining().toMillis(), 9_999);
        }
    }

    @Test
    void aLeaseIsWhatWasAskedFor() throws Exception {
        HoldfastLock brief = client.lock(name, LockOptions.defaults().lease(Duration.ofMinutes(3)));
        try (Hold hold = brief.acquire()) {
            assertBetween(150_000, lock.inspect().remaining().toMillis(), 180_000);
            assertBetween(150_000, hold.remaining().toMillis(), 180_000);
        }
    }

    @Test
    void maxHoldIsTheLongestThatAnybodyHoldsIt() throws Exception {
        Duration limit = Duration.ofMillis(900);
        HoldfastLock capped = client.lock(name, LockOptions.defaults().maxHold(limit));
        try (Hold other = held(capped, limit)) {
            other.check();
        }
    }

    /** A hold of another owner, after one of that lock, which ends with its limit. */
    private Hold held(HoldfastLock capped, Duration limit) throws Exception {
        Hold hold = capped.acquire();
        hold.renew();
        hold.extend(Duration.ofMinutes(1));
        assertTrue(hold.remaining().compareTo(limit) <= 0);
        assertTrue(lock.inspect().remaining().compareTo(limit) <= 0);
        Hold other = stranger.acquire(LONG);
        assertEquals(LossCause.EXPIRED, hold.lossCause().orElseThrow());
        assertThrows(LockLostException.class, hold::release);
        return other;
    }

    @Test
    void maxHoldThatDoesNothingIsRefused() {
        LockOptions capped = LockOptions.defaults().maxHold(SECOND);
        assertThrows(
                IllegalArgumentException.class, () -> client.lock(name, capped.neverExpires()));
        assertThrows(
                IllegalArgumentException.class, () -> client.lock(name, capped.renew(false)));
    }

    @Test
    void renewalThatDoesNothingIsRefused() {
        LockOptions endless = LockOptions.defaults().neverExpires().renew(true);
        assertThrows(IllegalArgumentException.class, () -> client.lock(name, endless));
    }

    @Test
    void aLockThatNeverExpiresHasNoLease() throws Exception {
        try (Hold hold = client.lock(name, LockOptions.defaults().neverExpires()).acquire()) {
            assertEquals(Hold.FOREVER, hold.remaining());
            assertTrue(hold.isValid());
            assertEquals(Hold.FOREVER, lock.inspect().remaining());
            hold.renew();
            hold.check();
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void extendAddsToWhatIsLeft() throws Exception {
        try (Hold hold = lock.acquire()) {
            hold.extend(Duration.ofSeconds(20));
            assertBetween(25_000, lock.inspect().remaining().toMillis(), 30_000);
            assertBetween(25_000, hold.remaining().toMillis(), 30_000);
        }
    }

    @Test
    void inspectTellsWhatIsThere() throws Exception {
        LockInfo free = lock.inspect();
        assertFalse(free.held());
        assertEquals(Duration.ZERO, free.remaining());
        assertEquals(0, free.count());

        byte[] owner = {'a', 0, ' ', (byte) 0xff};
        HoldfastLock mine = client.lock(name, LockOptions.defaults().owner(owner));
        try (Hold hold = mine.acquire();
                Hold nested = mine.acquire()) {
            LockInfo info = lock.inspect();
            assertTrue(info.held());
            assertFalse(info.foreign());
            assertArrayEquals(owner, info.owner());
            assertEquals(2, info.count());
            assertEquals(nested.fence(), info.fence());
            assertEquals(0, info.waiters());
            assertBetween(0, info.heldFor().toMillis(), 9_000);
            assertBetween(5_000, info.remaining().toMillis(), 10_000);
            assertTrue(hold.isValid());
        }
    }

    @Test
    void inspectListsTheHolderAndWhereItIs() throws Exception {
        try (Hold hold = lock.acquire()) {
            LockHolder holder = lock.inspect().holders().get(0);
            assertEquals(hold.fence(), holder.fence());
            assertEquals(1, holder.count());
            assertFalse(holder.shared());
            assertBetween(9_000, holder.remaining().toMillis(), 10_000);
            assertTrue(holder.ownerText().length() > 0);
            assertEquals(List.of(), lock.inspect(1).holders());
            assertTrue(holder.toString().contains("fence=" + hold.fence()), holder.toString());
        }
        assertThrows(IllegalArgumentException.class, () -> lock.inspect(-1));
        assertEquals(name, lock.inspect().nameText());
    }

    @Test
    void anOriginIsReadFromADefaultOwner() {
        String client = "0123456789abcdef0123456789abcdef";
        Origin origin = Origin.of(Bytes.of("a@b@h.example/42:" + client + ":a7")).orElseThrow();
        assertEquals(new Origin("h.example", 42, "a@b", Origin.Kind.TASK, 7), origin);
        assertTrue(Origin.of(Bytes.of("worker")).isEmpty());
        assertTrue(Origin.of(new byte[0]).isEmpty());
    }

    @Test
    void allLocksOfAPatternAreToldOnce() throws Exception {
        List<Hold> holds = new ArrayList<>();
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            names.add(name + ":" + (char) ('a' + i));
            holds.add(client.lock(names.get(i)).acquire());
        }
        holds.add(client.lock(name + "-other").acquire());
        try (Locks locks = client.locks(name + ":*", -1)) {
            List<String> found = locks.stream().map(LockInfo::nameText).sorted().toList();
            assertEquals(names, found);
            assertFalse(locks.hasNext());
            assertThrows(NoSuchElementException.class, locks::next);
            Locks.Progress progress = locks.progress();
            assertEquals(20, progress.locks());
            assertTrue(progress.keys() >= 20, progress.toString());
            assertEquals(progress.keys(), progress.keysSeen());
            assertEquals(0, progress.refused());
            assertTrue(progress.commands() >= progress.roundTrips(), progress.toString());
            assertEquals(
                    progress.roundTrips() > 0,
                    progress.answerTime().toNanos() > 0,
                    progress.toString());
        }
        try (Locks locks = client.locks(name + ":[a-c]")) {
            while (locks.hasNext()) {
                LockInfo info = locks.next();
                assertTrue(info.held());
                assertEquals(1, info.holders().size());
                int at = names.indexOf(info.nameText());
                assertEquals(holds.get(at).fence(), info.fence());
            }
            assertEquals(3, locks.progress().locks());
        }
        for (Hold hold : holds) {
            hold.release();
        }
        try (Locks locks = client.locks(name + "*")) {
            assertFalse(locks.hasNext());
        }
    }

    @Test
    void aWalkThatIsClosedSaysSo() {
        Locks locks = client.locks("*");
        locks.close();
        locks.close();
        assertThrows(ClosedException.class, locks::hasNext);
        assertThrows(ClosedException.class, locks::progress);
        assertThrows(IllegalArgumentException.class, () -> client.locks(""));
        assertThrows(IllegalArgumentException.class, () -> client.locks("*", 0));
        assertThrows(IllegalArgumentException.class, () -> client.locks("*", -2));
    }

    private static String note(HoldfastLock lock) {
        return lock.inspect().holders().get(0).note();
    }

    @Test
    void aNoteIsShownOfHoldersAndWaiters() throws Exception {
        HoldfastLock noted = client.lock(name, LockOptions.defaults().note("refund 17: grüße"));
        HoldfastLock other =
                client.lock(name, LockOptions.defaults().owner("ben").note("refund 18"));
        assertEquals("refund 18", LockOptions.defaults().note("refund 18").note());
        try (Hold hold = noted.acquire()) {
            assertEquals("refund 17: grüße", note(lock));
            CompletableFuture<Hold> waits = other.acquireAsync(Duration.ofSeconds(30));
            until(() -> lock.inspect().waiters() == 1);
            assertEquals("refund 18", lock.inspect().queue().get(0).note());
            assertTrue(lock.inspect().toString().contains("note=refund 17"));
            LockTimeoutException timeout =
                    assertThrows(
                            LockTimeoutException.class,
                            () -> stranger.acquire(Duration.ofMillis(10)));
            assertEquals("refund 17: grüße", timeout.holders().get(0).note());
            hold.release();
            waits.get(20, TimeUnit.SECONDS).release();
        }
        noted.lock();
        client.lock(name, LockOptions.defaults().note("inner")).lock(); // it nests
        assertEquals("refund 17: grüße", note(lock));
        assertEquals(2, lock.inspect().holders().get(0).count());
        lock.unlock();
        lock.unlock();
        try (Hold hold = lock.acquire()) {
            assertEquals("", note(lock));
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> LockOptions.defaults().note("x".repeat(1025)));
    }

    @Test
    void aHoldThatIsKeptIsShownAsKept() throws Exception {
        Hold hold = client.lock(name, LockOptions.defaults().note("nightly")).acquire();
        assertFalse(lock.inspect().kept());
        hold.keep(Duration.ofSeconds(90));
        LockInfo info = lock.inspect();
        assertTrue(info.held() && info.kept());
        assertEquals("nightly", info.holders().get(0).note());
        assertEquals(hold.fence(), info.fence());
        assertBetween(60, info.remaining().toSeconds(), 90);
        LockTimeoutException timeout =
                assertThrows(
                        LockTimeoutException.class, () -> lock.acquire(Duration.ofMillis(10)));
        assertTrue(timeout.holders().get(0).kept());
    }

    static void assertBetween(long least, long value, long most) {
        assertTrue(least <= value && value <= most, () -> least + " <= " + value + " <= " + most);
    }

    @Test
    void whatTheCallerHoldsIsSeenThroughAnyLockObject() {
        lock.lock();
        HoldfastLock same = client.lock(name);
        assertTrue(same.isHeldByCurrentThread());
        assertEquals(1, same.getHoldCount());
        assertEquals(lock.fence(), same.fence());
        same.lock();
        same.unlock();
        assertEquals(1, client.lock(name).getHoldCount());
        same.unlock();
        assertEquals(0, client.lock(name).getHoldCount());
    }

    @Test
    void aLeaseThatNoServerTakesIsRefused() throws Exception {
        Hold hold = lock.acquire();
        for (Duration wrong :
                List.of(
                        Hold.FOREVER,
                        Duration.ofSeconds(Long.MAX_VALUE),
                        Duration.ofDays(3650).plusNanos(1),
                        Duration.ofMillis(9))) {
            HoldfastLock free = client.lock(name + 2);
            assertThrowsExactly(IllegalArgumentException.class, () -> free.lock(wrong));
            assertThrowsExactly(
                    IllegalArgumentException.class, () -> free.tryLock(Duration.ZERO, wrong));
            LockOptions options = LockOptions.defaults().lease(wrong);
            assertThrowsExactly(
                    IllegalArgumentException.class, () -> client.lock(name, options));
            assertThrowsExactly(
                    IllegalArgumentException.class, () -> client.gate(name, 1, wrong));
            assertThrowsExactly(
                    IllegalArgumentException.class, () -> client.limit(name, 1, wrong));
            assertThrowsExactly(IllegalArgumentException.class, () -> hold.extend(wrong));
            if (wrong.toSeconds() > 0) {
                assertThrowsExactly(IllegalArgumentException.class, () -> hold.keep(wrong));
            }
        }
        hold.extend(Duration.ofNanos(9_000_001)); // rounded up
        hold.close();
    }

    @Test
    void aWeightThatOnlySharedHoldsHaveKeepsNoExclusiveOneOut() throws Exception {
        lock.lock(); // what it leaves with the client is looked for in both modes
        lock.unlock();
        LockOptions heavy = LockOptions.defaults().permits(3).weight(5);
        client.lock(name, heavy).acquire(LONG).close();
        assertThrows(
                IllegalArgumentException.class, () -> client.lock(name, heavy).shared());
    }

    @Test
    void aTimeoutBeyondAllBoundsIsNone() throws Exception {
        lock.lock();
        LockOptions ahead = LockOptions.defaults().reentrant(false).ahead(Duration.ofSeconds(1));
        for (Duration endless :
                List.of(Duration.ofSeconds(Long.MAX_VALUE), Hold.FOREVER, Hold.FOREVER.minusMillis(1))) {
            CompletableFuture<Hold> waiting = client.lock(name, ahead).acquireAsync(endless);
            until(() -> lock.inspect().waiters() == 1);
            assertTrue(lock.inspect().queue().get(0).timeout().toDays() > 36_500, "" + endless);
            assertTrue(waiting.cancel(true));
            until(() -> lock.inspect().waiters() == 0);
        }
        Async<Boolean> tried =
                Async.start(() -> stranger.tryLock(Long.MAX_VALUE, TimeUnit.DAYS));
        until(() -> lock.inspect().waiters() == 1);
        lock.unlock();
        assertTrue(tried.get());
        stranger.unlock();
    }
}
