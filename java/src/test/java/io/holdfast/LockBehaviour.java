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
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** What a lock must do on a Redis. The core's own behaviours are those of the tests in C. */
abstract class LockBehaviour extends LockContract {
    Jedis redis;

    @Override
    HoldfastClient connect() {
        return RedisTest.SERVER.connect();
    }

    @BeforeEach
    void look() {
        redis = RedisTest.SERVER.look();
    }

    @AfterEach
    void lookNoMore() {
        redis.close();
    }

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
        HoldfastLock longer = client.lock(name, LockOptions.defaults().lease(Duration.ofMinutes(1)));
        try (Hold hold = longer.acquire()) {
            redis.pexpire(name, 10_000);
            hold.renew();
            assertTrue(redis.pttl(name) > 30_000);
            until(() -> hold.remaining().toMillis() < 59_900);
            until(
                    () -> { // again, if the machine stood still meanwhile
                        hold.renew();
                        return hold.remaining().toMillis() > 59_900;
                    });
        }
    }

    @Test
    void leavingTheBlockTellsOfALoss() {
        LockLostException lost =
                assertThrows(
                        LockLostException.class,
                        () -> {
                            try (Hold hold = lock.acquire()) {
                                redis.del(name);
                                assertTrue(hold.isValid(), "no call has asked yet");
                            }
                        });
        assertTrue(lost.getMessage().contains(name.substring(0, 30)), lost.getMessage());
    }

    @Test
    void aHoldWhoseKeyWasTakenAwayIsLost() throws Exception {
        Hold hold = lock.acquire();
        redis.del(name);
        assertThrows(LockLostException.class, hold::check);
        assertFalse(hold.isValid());
        assertThrows(LockLostException.class, hold::renew);
        assertThrows(LockLostException.class, () -> hold.release());
        assertFalse(redis.exists(name));
    }

    // ---------------------------------------------------------- Foreign locks

    @Test
    void aForeignLockIsBusyAndNeverOverwritten() throws Exception {
        redis.set(name, "token", SetParams.setParams().nx().ex(60));
        byte[] before = redis.dump(name);
        assertFalse(lock.tryLock());
        assertThrows(LockTimeoutException.class, () -> lock.acquire(Duration.ofMillis(20)));
        assertThrows(LockNotHeldException.class, lock::unlock);
        LockInfo info = lock.inspect();
        assertTrue(info.held());
        assertTrue(info.foreign());
        assertEquals("", info.ownerText());
        assertEquals(0, info.fence());
        assertFalse(lock.forceUnlock());
        assertArrayEquals(before, redis.dump(name));

        Async<Boolean> waiting = Async.start(() -> lock.tryLock(10, TimeUnit.SECONDS));
        until(() -> redis.exists("{" + name + "}" + name + ":hf1:q"));
        redis.del(name);
        assertTrue(waiting.get());
    }

    @Test
    void aForeignLockThatReplacedOursIsLeftAlone() throws Exception {
        Hold hold = lock.acquire();
        redis.set(name, "token");
        assertThrows(LockLostException.class, hold::check);
        assertThrows(LockLostException.class, hold::renew);
        assertThrows(LockLostException.class, () -> hold.release());
        assertEquals("token", redis.get(name));
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
}
