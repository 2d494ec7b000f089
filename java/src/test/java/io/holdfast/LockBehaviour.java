package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** What a lock must do on a Redis; the same table runs in every language, and here over each transport. */
abstract class LockBehaviour extends LockContract {
    Jedis redis;

    String url() {
        return RedisTest.SERVER.tcpUrl;
    }

    @Override
    HoldfastClient connect() {
        return Holdfast.connect(url());
    }

    @BeforeEach
    void look() {
        redis = RedisTest.SERVER.look();
    }

    @AfterEach
    void lookNoMore() {
        redis.close();
    }

    // ---------------------------------------------------------------- Acquire

    // ---------------------------------------------------------------- Nesting

    // ----------------------------------------------------------------- Owners

    @Test
    void theDefaultOwnerTellsHostAndProcess() {
        lock.lock();
        String owner = lock.inspect().ownerText();
        String pid = "/" + ProcessHandle.current().pid() + ":";
        assertTrue(owner.matches(".+" + pid + "[0-9a-f]{32}:t\\d+"), owner);
        assertEquals(owner, redis.hvals(name).get(0));
    }

    // ------------------------------------------------------------------ Lease

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
}
