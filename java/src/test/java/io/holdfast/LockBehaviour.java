package io.holdfast;

import static io.holdfast.Async.elsewhere;
import static io.holdfast.Async.until;
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
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** What a lock must do; the same table runs in every language, and here over each transport. */
abstract class LockBehaviour extends RedisTest {

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

    // ---------------------------------------------------------------- Acquire

    @Test
    void aFreeLockIsAcquiredAndReleased() throws Exception {
        Hold hold = acquire(lock, SECOND);
        assertTrue(redis.exists(name));
        assertTrue(lock.isLocked());
        assertTrue(hold.isValid());
        assertTrue(hold.fence() > 0);
        long fence = hold.fence();
        hold.close();
        assertFalse(redis.exists(name));
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
            assertTrue(redis.exists(name));
            assertTrue(lock.isHeldByCurrentThread());
            assertEquals(1, lock.getHoldCount());
            lock.unlock();
            assertFalse(redis.exists(name));
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
        Map<String, String> before = redis.hgetAll(name);
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
        assertEquals(before, redis.hgetAll(name));
        assertEquals(0, queued());
        lock.unlock();
        assertFalse(redis.exists(name));
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

    // ---------------------------------------------------------------- Nesting

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
        assertFalse(redis.exists(name));

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
        assertFalse(redis.exists(name));
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
        assertFalse(redis.exists(name));
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
        redis.del(name);
        assertThrows(LockLostException.class, last::check);
        assertFalse(mine.isHeldByCurrentThread());
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
        assertFalse(redis.exists(name));
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

    // ----------------------------------------------------------------- Owners

    @Test
    void releaseByAnotherOwnerIsRefused() throws Exception {
        lock.lock();
        Map<String, String> before = redis.hgetAll(name);
        assertThrowsExactly(LockNotHeldException.class, stranger::unlock);
        assertThrowsExactly(LockNotHeldException.class, () -> elsewhere(lock::unlock));
        assertEquals(before, redis.hgetAll(name));
        lock.unlock();
    }

    @Test
    void equalOwnersAreOneOwnerEverywhere() throws Exception {
        LockOptions text = LockOptions.defaults().owner("worker");
        LockOptions bytes = LockOptions.defaults().owner("worker".getBytes(StandardCharsets.UTF_8));
        try (HoldfastClient other = Holdfast.connect(url())) {
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
    void theDefaultOwnerTellsHostAndProcess() {
        lock.lock();
        String owner = lock.inspect().ownerText();
        String pid = "/" + ProcessHandle.current().pid() + ":";
        assertTrue(owner.matches(".+" + pid + "[0-9a-f]{32}:t\\d+"), owner);
        assertEquals(owner, redis.hget(name, "hf1"));
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

    // ------------------------------------------------------------------ Lease

    @Test
    void theLeaseIsTenSecondsIfNoneIsAskedFor() throws Exception {
        try (Hold hold = acquire(lock)) {
            assertBetween(9_000, redis.pttl(name), 10_000);
            assertBetween(9_000, hold.remaining().toMillis(), 9_999);
        }
    }

    @Test
    void aLeaseIsWhatWasAskedFor() throws Exception {
        HoldfastLock brief = client.lock(name, LockOptions.defaults().lease(Duration.ofMinutes(3)));
        try (Hold hold = acquire(brief)) {
            assertBetween(179_000, redis.pttl(name), 180_000);
            assertBetween(178_000, hold.remaining().toMillis(), 180_000);
        }
    }

    @Test
    void aLockThatNeverExpiresHasNoLease() throws Exception {
        try (Hold hold = acquire(client.lock(name, LockOptions.defaults().neverExpires()))) {
            assertEquals(-1, redis.pttl(name));
            assertEquals(Hold.FOREVER, hold.remaining());
            assertTrue(hold.isValid());
            assertEquals(Hold.FOREVER, lock.inspect().remaining());
            hold.renew();
            hold.check();
            assertEquals(-1, redis.pttl(name));
        }
        assertFalse(redis.exists(name));
    }

    @Test
    void renewGivesTheWholeLeaseAgain() throws Exception {
        HoldfastLock brief = client.lock(name, LockOptions.defaults().lease(Duration.ofSeconds(2)));
        try (Hold hold = acquire(brief)) {
            until(() -> redis.pttl(name) < 1_800);
            hold.renew();
            assertTrue(redis.pttl(name) > 1_800);
            assertTrue(hold.remaining().toMillis() > 1_800);
        }
    }

    @Test
    void extendAddsToWhatIsLeft() throws Exception {
        try (Hold hold = acquire(lock)) {
            hold.extend(Duration.ofSeconds(20));
            assertBetween(29_000, redis.pttl(name), 30_000);
            assertBetween(29_000, hold.remaining().toMillis(), 30_000);
        }
    }

    @Test
    void checkChangesNothing() throws Exception {
        try (Hold hold = acquire(lock)) {
            Map<String, String> before = redis.hgetAll(name);
            hold.check();
            assertEquals(before, redis.hgetAll(name));
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
        Map<String, String> before = redis.hgetAll(name);

        assertFalse(stale.isValid());
        assertEquals(Duration.ZERO, stale.remaining());
        assertFalse(brief.isHeldByCurrentThread());
        assertThrows(LockLostException.class, stale::check);
        assertThrows(LockLostException.class, stale::renew);
        assertThrows(LockLostException.class, () -> stale.extend(SECOND));
        assertThrows(LockLostException.class, () -> release(stale));
        assertThrows(LockLostException.class, brief::unlock);
        assertThrowsExactly(LockNotHeldException.class, brief::unlock);
        assertEquals(before, redis.hgetAll(name));
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
        assertTrue(redis.exists(name));
        try (HoldfastClient other = Holdfast.connect(url())) {
            HoldfastLock there = other.lock(name);
            for (byte[] wrong : new byte[][] {{}, {0}, "no token".getBytes(), new byte[9999]}) {
                assertThrows(IllegalArgumentException.class, () -> there.adopt(wrong));
            }
            try (Hold adopted = there.adopt(token)) {
                assertEquals(hold.fence(), adopted.fence());
                adopted.check();
                assertFalse(stranger.tryLock());
            }
            assertFalse(redis.exists(name));
            assertThrows(LockLostException.class, () -> there.adopt(token));
            assertThrows(NullPointerException.class, () -> there.adopt(null));
        }
        Hold gone = acquire(lock);
        client.close();
        assertThrows(ClosedException.class, gone::handOver);
    }

    @Test
    void leavingTheBlockTellsOfALoss() {
        LockLostException lost =
                assertThrows(
                        LockLostException.class,
                        () -> {
                            try (Hold hold = acquire(lock)) {
                                redis.del(name);
                                assertTrue(hold.isValid(), "nobody has asked yet");
                            }
                        });
        assertTrue(lost.getMessage().contains(name.substring(0, 30)), lost.getMessage());
    }

    @Test
    void aHoldWhoseKeyWasTakenAwayIsLost() throws Exception {
        Hold hold = acquire(lock);
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        assertFalse(hold.isValid());
        assertThrows(LockLostException.class, hold::renew);
        assertThrows(LockLostException.class, () -> release(hold));
        assertFalse(redis.exists(name));
    }

    // ------------------------------------------------------------------ Fence

    enum Between {
        RELEASE,
        EXPIRY,
        FLUSHALL,
        SCRIPT_FLUSH
    }

    @ParameterizedTest
    @EnumSource
    void theFenceGrowsOver(Between between) throws Exception {
        Duration lease = between == Between.EXPIRY ? Duration.ofMillis(50) : LONG;
        HoldfastLock fenced = client.lock(name, LockOptions.defaults().lease(lease));
        long last = 0;
        for (int i = 0; i < 3; i++) {
            Hold hold = acquire(fenced, LONG);
            assertBetween(last + 1, hold.fence(), (1L << 53) - 1);
            last = hold.fence();
            switch (between) {
                case RELEASE -> release(hold);
                case EXPIRY -> until(() -> !redis.exists(name));
                case FLUSHALL -> redis.flushAll();
                case SCRIPT_FLUSH -> {
                    redis.scriptFlush();
                    release(hold);
                }
            }
        }
    }

    // ---------------------------------------------------------- Foreign locks

    enum Foreign {
        REDIS_PY {
            @Override
            void make(Jedis redis, String name) {
                redis.set(name, "token", SetParams.setParams().nx().ex(60));
            }
        },
        REDISSON {
            @Override
            void make(Jedis redis, String name) {
                redis.hset(name, "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1");
            }
        },
        LIST {
            @Override
            void make(Jedis redis, String name) {
                redis.rpush(name, "1");
            }
        };

        abstract void make(Jedis redis, String name);
    }

    @ParameterizedTest
    @EnumSource
    void aForeignLockIsBusyAndNeverOverwritten(Foreign foreign) throws Exception {
        foreign.make(redis, name);
        byte[] before = redis.dump(name);
        assertFalse(lock.tryLock());
        assertThrows(LockTimeoutException.class, () -> acquire(lock, Duration.ofMillis(20)));
        assertThrows(LockNotHeldException.class, lock::unlock);
        LockInfo info = lock.inspect();
        assertTrue(info.held());
        assertTrue(info.foreign());
        assertEquals("", info.ownerText());
        assertEquals(0, info.fence());
        assertFalse(lock.forceUnlock());
        assertArrayEquals(before, redis.dump(name));

        Async<Boolean> waiting = Async.start(() -> lock.tryLock(10, TimeUnit.SECONDS));
        redis.del(name);
        assertTrue(waiting.get());
    }

    @Test
    void aForeignLockThatReplacedOursIsLeftAlone() throws Exception {
        Hold hold = acquire(lock);
        redis.set(name, "token");
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, hold::renew);
        assertThrows(LockLostException.class, () -> release(hold));
        assertEquals("token", redis.get(name));
    }

    // ---------------------------------------------------------------- Inspect

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
    void forceUnlockTakesTheLockAway() throws Exception {
        assertFalse(lock.forceUnlock(), "free");
        Hold hold = acquire(lock);
        assertTrue(stranger.forceUnlock());
        assertFalse(redis.exists(name));
        assertTrue(stranger.tryLock());
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, () -> release(hold));
        stranger.unlock();
    }

    // ------------------------------------------------------------------ Names

    @Test
    void namesAreKeptByteForByte() {
        byte[] bytes = (name + "\0 \u00e4 ").getBytes(StandardCharsets.ISO_8859_1);
        HoldfastLock odd = client.lock(bytes);
        odd.lock();
        assertTrue(redis.exists(bytes));
        odd.unlock();
        assertFalse(redis.exists(bytes));
    }

    @ParameterizedTest
    @ValueSource(strings = {"\u00e4", "\ud83d\ude00", "a b", "a\0b"})
    void namesAreUtf8(String text) {
        HoldfastLock odd = client.lock(name + text);
        odd.lock();
        assertTrue(redis.exists((name + text).getBytes(StandardCharsets.UTF_8)));
        odd.unlock();
    }

    @Test
    void aLockShowsItsNameWithoutAskingTheServer() {
        client.close();
        assertEquals("RedisLock[" + name + "]", lock.toString());
        assertEquals(name, lock.getName());
    }

    @Test
    void conditionsAreUnsupported() {
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
    }

    static void assertBetween(long least, long value, long most) {
        assertTrue(least <= value && value <= most, () -> least + " <= " + value + " <= " + most);
    }
}
