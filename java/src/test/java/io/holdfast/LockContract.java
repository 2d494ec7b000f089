package io.holdfast;

import static io.holdfast.Async.elsewhere;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a lock must do, on a Redis or in memory. */
abstract class LockContract extends ClientTest {

    // How it is acquired and released, where a Hold is wanted.

    Hold acquire(HoldfastLock lock) throws Exception {
        return lock.acquire();
    }

    Hold acquire(HoldfastLock lock, Duration timeout) throws Exception {
        return lock.acquire(timeout);
    }

    void release(Hold hold) throws Exception {
        hold.release();
    }

    /** A lock that this test may acquire more than once. */
    HoldfastLock nestable() {
        return lock;
    }

    @Test
    void aFreeLockIsAcquiredAndReleased() throws Exception {
        Hold hold = acquire(lock, SECOND);
        assertTrue(lock.isLocked());
        assertTrue(lock.isLocked());
        assertTrue(hold.isValid());
        assertTrue(hold.fence() > 0);
        long fence = hold.fence();
        hold.close();
        assertFalse(lock.isLocked());
        assertFalse(lock.isLocked());
        assertFalse(hold.isValid());
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
        assertThrows(LockTimeoutException.class, () -> acquire(stranger, Duration.ZERO));
        assertTrue(secondsSince(start) < 1);
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
            assertTrue(secondsSince(start) < 1);

            start = System.nanoTime();
            LockTimeoutException timeout =
                    assertThrows(
                            LockTimeoutException.class,
                            () -> acquire(stranger, Duration.ofMillis(millis)));
            assertTrue(System.nanoTime() - start >= millis * 1_000_000L, "early");
            assertTrue(timeout.getMessage().contains(name.substring(0, 30)));
        }
        assertEquals(before.fence(), lock.inspect().fence());
        assertEquals(0, lock.inspect().waiters());
        lock.unlock();
        assertFalse(lock.isLocked());
    }

    @Test
    void aWaitingAcquireGetsTheLockWhenItIsReleased() throws Exception {
        Hold first = acquire(lock);
        Async<Long> waiting = Async.start(() -> acquire(stranger, LONG).fence());
        assertTrue(waiting.isRunning());
        release(first);
        assertTrue(waiting.get() > first.fence());
        assertEquals("stranger", lock.inspect().ownerText());
    }

    @Test
    void theQueueSaysWhoWaitsAndForHowLong() throws Exception {
        assertEquals(List.of(), lock.inspect().queue());
        Hold first = acquire(lock);
        Async<Long> waiting = Async.start(() -> acquire(stranger, LONG).fence());
        while (lock.inspect().queue().isEmpty()) {
            Thread.sleep(1);
        }
        CompletableFuture<Hold> next = lock.acquireAsync();
        while (lock.inspect().waiters() < 2) {
            Thread.sleep(1);
        }
        Thread.sleep(20);
        List<LockWaiter> waiters = lock.inspect().queue();
        assertEquals(1, lock.inspect(1).queue().size());
        assertEquals("stranger", waiters.get(0).ownerText());
        assertEquals(LONG, waiters.get(0).timeout());
        assertEquals(Hold.FOREVER, waiters.get(1).timeout());
        for (LockWaiter waiter : waiters) {
            assertTrue(waiter.waited().toMillis() >= 19, waiter.toString());
        }
        release(first);
        waiting.get();
        next.cancel(true);
    }

    @Test
    void aHolderIsTakenAwayByItsFence() throws Exception {
        Hold hold = acquire(lock);
        assertFalse(stranger.forceUnlock(hold.fence() - 1));
        assertTrue(hold.isValid());
        assertTrue(stranger.forceUnlock(hold.fence()));
        assertFalse(lock.isLocked());
        Hold next = acquire(stranger);
        assertFalse(lock.forceUnlock(hold.fence()));
        assertTrue(lock.isLocked());
        release(next);
    }

    @Test
    void anAcquireWithoutATimeoutWaits() throws Exception {
        lock.lock();
        List<Async<?>> waiters =
                List.of(
                        Async.start(() -> acquire(stranger).isValid()),
                        Async.start(() -> acquire(stranger, Hold.FOREVER).isValid()),
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
        Thread.sleep(200); // nothing happens that could be waited for
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
                                    try (Hold hold = acquire(lock, LONG)) {
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
        HoldfastLock mine = nestable();
        try (Hold outer = acquire(mine);
                Hold middle = acquire(mine, SECOND);
                Hold inner = acquire(mine, Duration.ZERO)) {
            assertEquals(outer.fence(), middle.fence());
            assertEquals(outer.fence(), inner.fence());
            assertEquals(3, mine.inspect().count());
        }
        assertFalse(lock.isLocked());

        for (int count = 1; count <= 3; count++) {
            mine.lock();
            assertEquals(count, mine.getHoldCount());
        }
        for (int count = 2; count >= 1; count--) {
            mine.unlock();
            assertEquals(count, mine.getHoldCount());
            assertFalse(stranger.tryLock());
        }
        mine.unlock();
        assertTrue(stranger.tryLock());
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
        HoldfastLock mine = nestable();
        try (Hold hold = acquire(mine)) {
            assertEquals(0, mine.getHoldCount());
            assertThrowsExactly(LockNotHeldException.class, mine::unlock);
            mine.lock();
            assertEquals(2, mine.inspect().count());
            mine.unlock();
            hold.check();
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aHoldMayBeReleasedByAnyThread() throws Exception {
        Hold hold = acquire(lock);
        elsewhere(
                () -> {
                    release(hold);
                    return null;
                });
        assertFalse(hold.isValid());
        assertFalse(lock.isLocked());
    }

    @Test
    void aHoldIsReleasedOnce() throws Exception {
        Hold hold = acquire(lock);
        release(hold);
        for (Executable use :
                List.<Executable>of(
                        () -> release(hold),
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
        Hold hold = acquire(lock);
        client.close();
        assertFalse(hold.isValid());
        assertThrowsExactly(ClosedException.class, hold::check);
        assertThrowsExactly(ClosedException.class, hold::close);
        hold.close();
    }

    @Test
    void holdsMayEndInAnyOrder() throws Exception {
        HoldfastLock mine = nestable();
        Hold first = acquire(mine);
        Hold second = acquire(mine);
        first.close();
        assertFalse(stranger.tryLock());
        second.check();
        second.close();
        assertFalse(mine.isLocked());
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
        try (Hold hold = acquire(lock)) {
            LockInfo before = lock.inspect();
            hold.check();
            assertEquals(before.fence(), lock.inspect().fence());
        }
    }

    @Test
    void aLeaseEndsAndAnotherTakesOverAndTheStaleHolderChangesNothing() throws Exception {
        HoldfastLock brief =
                client.lock(
                        name, LockOptions.defaults().lease(Duration.ofMillis(200)).owner("me"));
        Hold stale = acquire(brief);
        brief.lock();
        Hold next = acquire(stranger, LONG);
        assertTrue(next.fence() > stale.fence());
        LockInfo before = lock.inspect();

        assertFalse(stale.isValid());
        assertEquals(Duration.ZERO, stale.remaining());
        assertFalse(brief.isHeldByCurrentThread());
        assertThrows(LockLostException.class, stale::check);
        assertThrows(LockLostException.class, stale::renew);
        assertThrows(LockLostException.class, () -> stale.extend(SECOND));
        assertThrows(LockLostException.class, () -> release(stale));
        assertThrows(LockLostException.class, brief::unlock);
        assertThrowsExactly(LockNotHeldException.class, brief::unlock);
        assertEquals(before.fence(), lock.inspect().fence());
        next.check();
        next.close();
    }

    @Test
    void aHoldIsHandedOverByAToken() throws Exception {
        Hold hold = acquire(lock);
        byte[] token = hold.handOver();
        assertFalse(hold.isValid());
        assertThrowsExactly(LockNotHeldException.class, hold::handOver);
        assertThrowsExactly(LockNotHeldException.class, () -> release(hold));
        hold.close();
        assertTrue(lock.isLocked());
        try (HoldfastClient other = connect()) {
            HoldfastLock there = other.lock(name);
            for (byte[] wrong : new byte[][] {{}, {0}, "no token".getBytes(), new byte[9999]}) {
                assertThrows(IllegalArgumentException.class, () -> there.adopt(wrong));
            }
            try (Hold adopted = there.adopt(token)) {
                assertEquals(hold.fence(), adopted.fence());
                adopted.check();
                assertFalse(stranger.tryLock());
            }
            assertFalse(lock.isLocked());
            assertThrows(LockLostException.class, () -> there.adopt(token));
            assertThrows(NullPointerException.class, () -> there.adopt(null));
        }
        Hold gone = acquire(lock);
        client.close();
        assertThrows(ClosedException.class, gone::handOver);
    }

    @Test
    void aKeptHoldRefusesEverybodyAndThenEndsByItself() throws Exception {
        Hold hold = acquire(lock);
        assertThrows(IllegalArgumentException.class, () -> hold.keep(Duration.ofDays(36500)));
        assertThrows(IllegalArgumentException.class, () -> hold.keep(Duration.ofMillis(-1)));
        assertTrue(hold.isValid());
        hold.keep(Duration.ofMinutes(1));
        assertFalse(hold.isValid());
        assertTrue(hold.lossCause().isEmpty());
        assertEquals(Duration.ZERO, hold.remaining());
        assertThrowsExactly(LockNotHeldException.class, () -> hold.keep(Duration.ofMinutes(1)));
        assertThrowsExactly(LockNotHeldException.class, () -> release(hold));
        hold.close();
        assertFalse(lock.tryLock(), "nor does its owner nest in it");
        assertFalse(stranger.tryLock());
        assertTrue(stranger.inspect().remaining().toSeconds() > 30);
        assertTrue(stranger.forceUnlock());

        acquire(stranger).keep(Duration.ofMillis(50));
        acquire(stranger).keep(Duration.ZERO);
        Hold gone = acquire(stranger);
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, () -> gone.keep(Duration.ofMinutes(1)));
    }

    @Test
    void aReleaseKeepsTheLockForAtLeast() throws Exception {
        Duration minute = Duration.ofMinutes(1);
        Hold released = acquire(lock);
        assertThrows(
                IllegalArgumentException.class, () -> released.keepAtLeast(minute.negated()));
        assertThrows(
                IllegalArgumentException.class,
                () -> released.keepAtLeast(Duration.ofDays(36500)));
        released.keepAtLeast(minute);
        Thread.sleep(100);
        release(released);
        assertRefusedForTheRest(released);

        Hold[] failed = new Hold[1];
        assertThrowsExactly(
                IllegalStateException.class,
                () -> {
                    try (Hold hold = acquire(lock)) {
                        failed[0] = hold;
                        hold.keepAtLeast(minute);
                        Thread.sleep(100);
                        throw new IllegalStateException();
                    }
                });
        assertRefusedForTheRest(failed[0]);

        Hold async = acquire(lock);
        async.keepAtLeast(minute);
        Thread.sleep(100);
        async.releaseAsync().get(20, TimeUnit.SECONDS);
        assertRefusedForTheRest(async);
    }

    private void assertRefusedForTheRest(Hold hold) {
        assertFalse(hold.isValid());
        assertTrue(hold.lossCause().isEmpty());
        hold.close();
        Duration left = stranger.inspect().remaining();
        assertTrue(left.toSeconds() > 30 && left.toMillis() <= 59_900, left.toString());
        assertFalse(stranger.tryLock());
        assertFalse(lock.tryLock(), "nor does its owner nest in it");
        assertTrue(stranger.forceUnlock());
    }

    @Test
    void atLeastIsOverWhenItHasPassed() throws Exception {
        try (Hold hold = acquire(lock)) {
            hold.keepAtLeast(Duration.ofMillis(20));
            Thread.sleep(30);
        }
        assertFalse(lock.isLocked());
        try (Hold hold = acquire(lock)) {
            hold.keepAtLeast(Duration.ofMinutes(1));
            hold.keepAtLeast(Duration.ZERO);
        }
        assertFalse(lock.isLocked());
        Hold lost = acquire(lock);
        lost.keepAtLeast(Duration.ofMinutes(1));
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, lost::close);
        lost.close();
        assertFalse(lock.isLocked());
    }

    @Test
    void forceUnlockTakesTheLockAway() throws Exception {
        assertFalse(lock.forceUnlock(), "free");
        Hold hold = acquire(lock);
        assertTrue(stranger.forceUnlock());
        assertFalse(lock.isLocked());
        assertTrue(stranger.tryLock());
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, () -> release(hold));
        stranger.unlock();
    }

    @Test
    void conditionsAreUnsupported() {
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    @Test
    void theCallerHoldsWhatItHasInHand() throws Exception {
        HoldfastLock mine = nestable();
        assertFalse(mine.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, mine::fence);
        mine.lock();
        long fence = mine.fence();
        assertEquals(fence, mine.inspect().fence());
        mine.unlock();
        assertThrowsExactly(LockNotHeldException.class, mine::fence);

        Hold first = acquire(mine);
        try (Hold hold = acquire(mine)) {
            assertTrue(mine.isHeldByCurrentThread());
            assertTrue(hold.fence() > fence);
            assertEquals(hold.fence(), mine.fence());
            assertFalse(stranger.isHeldByCurrentThread());
            assertEquals(0, mine.getHoldCount());
        }
        assertTrue(mine.isHeldByCurrentThread());
        elsewhere(
                () -> {
                    release(first);
                    return null;
                });
        assertFalse(mine.isHeldByCurrentThread());
        assertThrowsExactly(LockNotHeldException.class, mine::fence);
        Hold last = acquire(mine);
        assertTrue(stranger.forceUnlock());
        assertThrows(LockLostException.class, last::check);
        assertFalse(mine.isHeldByCurrentThread());
    }

    @Test
    void theLeaseIsTenSecondsIfNoneIsAskedFor() throws Exception {
        try (Hold hold = acquire(lock)) {
            assertBetween(9_000, lock.inspect().remaining().toMillis(), 10_000);
            assertBetween(9_000, hold.remaining().toMillis(), 9_999);
        }
    }

    @Test
    void aLeaseIsWhatWasAskedFor() throws Exception {
        HoldfastLock brief = client.lock(name, LockOptions.defaults().lease(Duration.ofMinutes(3)));
        try (Hold hold = acquire(brief)) {
            assertBetween(179_000, lock.inspect().remaining().toMillis(), 180_000);
            assertBetween(178_000, hold.remaining().toMillis(), 180_000);
        }
    }

    @Test
    void aLockThatNeverExpiresHasNoLease() throws Exception {
        try (Hold hold = acquire(client.lock(name, LockOptions.defaults().neverExpires()))) {
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
        try (Hold hold = acquire(lock)) {
            hold.extend(Duration.ofSeconds(20));
            assertBetween(29_000, lock.inspect().remaining().toMillis(), 30_000);
            assertBetween(29_000, hold.remaining().toMillis(), 30_000);
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
        try (Hold hold = acquire(mine);
                Hold nested = acquire(mine)) {
            LockInfo info = lock.inspect();
            assertTrue(info.held());
            assertFalse(info.foreign());
            assertArrayEquals(owner, info.owner());
            assertEquals(2, info.count());
            assertEquals(nested.fence(), info.fence());
            assertEquals(0, info.waiters());
            assertBetween(0, info.heldFor().toMillis(), 9_000);
            assertBetween(9_000, info.remaining().toMillis(), 10_000);
            assertTrue(hold.isValid());
        }
    }

    @Test
    void inspectListsTheHolderAndWhereItIs() throws Exception {
        try (Hold hold = acquire(lock)) {
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
            holds.add(acquire(client.lock(names.get(i))));
        }
        holds.add(acquire(client.lock(name + "-other")));
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
            release(hold);
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

    static void assertBetween(long least, long value, long most) {
        assertTrue(least <= value && value <= most, () -> least + " <= " + value + " <= " + most);
    }
}
