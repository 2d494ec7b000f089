package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import redis.clients.jedis.Jedis;

/** Several masters: the same program, with another URL. */
final class QuorumTest extends ClientTest {
    private static final int MASTERS = 3;
    private static final Duration HALF = Duration.ofMillis(500);
    private static final List<RedisServer> SERVERS = new ArrayList<>();

    private HoldfastClient other;

    @BeforeAll
    static void start() {
        IntStream.range(0, MASTERS).forEach(i -> SERVERS.add(RedisServer.start()));
    }

    @AfterAll
    static void stop() throws Exception {
        for (RedisServer server : SERVERS) {
            server.close();
        }
        SERVERS.clear();
    }

    @Override
    HoldfastClient connect() {
        return Holdfast.connect(url(0));
    }

    /** The masters have just begun: with a quarantine no caller would get a lock. */
    private static String url(int quarantine) {
        List<String> places =
                SERVERS.stream().map(each -> each.tcpUrl.replace("redis://", "")).toList();
        return "redis+quorum://" + String.join(",", places) + "?quarantine=" + quarantine;
    }

    @BeforeEach
    void openOther() {
        other = connect();
    }

    @AfterEach
    void closeOther() {
        other.close();
    }

    private static void everywhere(Consumer<Jedis> look) {
        for (RedisServer server : SERVERS) {
            try (Jedis redis = server.look()) {
                look.accept(redis);
            }
        }
    }

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    /** With a vote missing, the first waiter may have that one in place of a place in line. */
    private static Hold everywhere(Hold hold) throws InterruptedException {
        until(() -> hold.votes() == MASTERS);
        return hold;
    }

    @Test
    void aLockIsHeldAtAllMasters() throws Exception {
        Hold hold = everywhere(lock.acquire(LONG));
        assertEquals(MASTERS, hold.masters());
        everywhere(redis -> assertTrue(redis.exists(name)));
        hold.check();
        hold.renew();
        hold.extend(SECOND);
        assertTrue(hold.isValid());
        hold.close();
        assertEquals(0, hold.votes());
        assertEquals(MASTERS, hold.masters());
        assertFalse(lock.isLocked());
        until(() -> !other.lock(name).isLocked());
    }

    @Test
    void othersAreRefusedAndThenHaveAGreaterFence() throws Exception {
        long fence;
        try (Hold hold = lock.acquire(LONG)) {
            fence = hold.fence();
            assertFalse(other.lock(name).tryLock());
            LockTimeoutException busy =
                    assertThrows(
                            LockTimeoutException.class,
                            () -> other.lock(name).acquire(Duration.ofMillis(50)));
            assertTrue(busy.getMessage().contains(name), busy::getMessage);
        }
        try (Hold hold = other.lock(name).acquire(LONG)) {
            assertTrue(hold.fence() > fence);
        }
    }

    @Test
    void waitersHoldItOneAfterTheOther() throws Exception {
        List<Long> fences = new CopyOnWriteArrayList<>();
        List<Async<Boolean>> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            HoldfastClient of = i % 2 == 0 ? client : other;
            all.add(
                    Async.start(
                            () -> {
                                try (Hold hold = of.lock(name).acquire(LONG)) {
                                    return fences.add(hold.fence());
                                }
                            }));
        }
        for (Async<Boolean> each : all) {
            assertTrue(each.get());
        }
        assertEquals(8, fences.size());
        assertEquals(fences.stream().sorted().distinct().toList(), List.copyOf(fences));
    }

    @Test
    void aHoldNestsInItsThread() throws Exception {
        lock.lock();
        long fence = lock.fence();
        assertTrue(lock.tryLock());
        assertEquals(2, lock.getHoldCount());
        assertEquals(fence, lock.fence());
        lock.unlock();
        assertFalse(other.lock(name).tryLock());
        assertThrows(LockDeadlockException.class, () -> lock.acquire(LONG)); // that nests in none
        lock.unlock();
        lock.acquire(LONG).close();
        assertTrue(other.lock(name).tryLock());
        other.lock(name).unlock();
    }

    @Test
    void severalLocksAreHeldTogether() throws Exception {
        List<String> names = List.of(name + ":a", name + ":b");
        Holds holds = client.locksAll(names, LockOptions.defaults()).acquire(LONG);
        for (String each : names) {
            assertFalse(other.lock(each).tryLock());
        }
        holds.close();
        try (Holds next = other.locksAll(names, LockOptions.defaults()).acquire(LONG)) {
            for (String each : names) {
                assertTrue(next.fences().get(each) > holds.fences().get(each));
            }
        }
    }

    @Test
    void oneLeadsAndTheNextFollowsIt() throws Exception {
        List<String> told = new CopyOnWriteArrayList<>();
        try (Leader first = leader(client, "a", told);
                Leader second = leader(other, "b", told)) {
            first.start();
            until(() -> told.contains("a elected"));
            second.start();
            long fence = first.fence().orElseThrow();
            first.close();
            until(() -> told.contains("b elected"));
            assertTrue(second.fence().orElseThrow() > fence);
        }
        until(() -> told.size() == 4);
        assertEquals(List.of("a elected", "a resigned", "b elected", "b resigned"), told);
    }

    private Leader leader(HoldfastClient of, String which, List<String> told) {
        return of.leader(
                name,
                fence -> told.add(which + " elected"),
                () -> told.add(which + " lost"),
                () -> told.add(which + " resigned"));
    }

    @Test
    void aFutureIsTheHoldOrIsCancelled() throws Exception {
        Hold hold = everywhere(get(lock.acquireAsync()));
        CompletableFuture<Hold> next = other.lock(name).acquireAsync();
        until(() -> lock.inspect().waiters() == 1);
        CompletableFuture<Hold> given = other.lock(name).acquireAsync(LONG);
        until(() -> lock.inspect().waiters() == 2);
        assertTrue(next.cancel(true));
        until(() -> lock.inspect().waiters() == 1);
        get(hold.releaseAsync());
        assertTrue(get(given).fence() > hold.fence());
        get(get(given).releaseAsync());
        until(() -> !lock.isLocked());
    }

    @Test
    void aThreadThatWaitsIsInterrupted() throws Exception {
        try (Hold hold = everywhere(lock.acquire(LONG))) {
            Async<Hold> waits = Async.start(() -> other.lock(name).acquire());
            until(() -> lock.inspect().waiters() == 1);
            waits.thread.interrupt();
            assertThrows(InterruptedException.class, waits::get);
            until(() -> lock.inspect().waiters() == 0);
            assertTrue(hold.isValid());
        }
    }

    @Test
    void aBrokenHoldIsTold() throws Exception {
        List<Hold> lost = new CopyOnWriteArrayList<>();
        Hold hold =
                everywhere(client.lock(name, LockOptions.defaults().lease(Duration.ofSeconds(5))).acquire(LONG));
        hold.onLost(lost::add);
        assertTrue(other.lock(name).forceUnlock());
        until(() -> lost.equals(List.of(hold)));
        assertEquals(Optional.of(LossCause.GONE), hold.lossCause());
        assertThrows(LockLostException.class, hold::close);
    }

    @Test
    void troubleOfAMinorityTroubleOfAMajorityAndALossAreTold() throws Exception {
        List<TroubleNotice> told = new CopyOnWriteArrayList<>();
        List<Hold> lost = new CopyOnWriteArrayList<>();
        ClientOptions telling = ClientOptions.defaults().commandTimeout(HALF).onTrouble(told::add);
        LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(3));
        int at;
        try (HoldfastClient holder = Holdfast.connect(url(0), telling)) {
            Hold hold = everywhere(holder.lock(name, brief).acquire(LONG));
            hold.onLost(lost::add);
            try {
                SERVERS.get(0).stall();
                at = hear(told, 0, TroubleNotice.Kind.FAILOVER, "does not renew");
                assertTrue(hold.isValid());
                SERVERS.get(1).stall();
                at = hear(told, at, TroubleNotice.Kind.AT_RISK, "fewer than a majority");
                assertEquals(1, told.get(at - 1).holds());
                until(() -> lost.equals(List.of(hold)));
            } finally {
                SERVERS.get(0).resume();
                SERVERS.get(1).resume();
            }
            try (Hold next = holder.lock(name, brief).acquire(LONG)) {
                at = hear(told, at, TroubleNotice.Kind.OVER, "renews again");
                hear(told, at, TroubleNotice.Kind.FAILOVER, "renew again");
                assertTrue(next.fence() > hold.fence());
            }
        }
    }

    /**
     * Waits for such a notice after the first ones, and tells how many there are up to it. A
     * machine that stands still has others told, too.
     */
    private static int hear(
            List<TroubleNotice> told, int after, TroubleNotice.Kind kind, String words)
            throws InterruptedException {
        AtomicInteger at = new AtomicInteger(after);
        until(
                () -> {
                    while (at.get() < told.size()) {
                        TroubleNotice next = told.get(at.getAndIncrement());
                        if (next.kind() == kind && next.message().contains(words)) {
                            return true;
                        }
                    }
                    return false;
                });
        return at.get();
    }

    @Test
    void aMasterThatHangsDelaysNobody() throws Exception {
        RedisServer first = SERVERS.get(0);
        try (Hold held = everywhere(client.lock(name + ":held").acquire(LONG))) {
            first.stall();
            try {
                held.renew();
                long start = System.nanoTime();
                lock.acquire(LONG).close();
                assertInTime(start);
            } finally {
                first.resume();
            }
            assertTrue(held.isValid());
        }
    }

    @Test
    void oncePerPeriodIsOnceForAll() throws Exception {
        assertEquals(Optional.of(7), client.oncePer(name, Duration.ofMinutes(1), () -> 7).call());
        assertEquals(
                Optional.empty(), other.oncePer(name, Duration.ofMinutes(1), () -> 8).call());
    }

    @Test
    void whatNeedsOneServerIsRefusedWithItsReason() {
        record Row(String reason, Executable wrong) {}
        for (Row row :
                List.of(
                        new Row("shared holds", () -> lock.shared().acquire(SECOND)),
                        new Row("without an end", () -> with(LockOptions.defaults().neverExpires())),
                        new Row("replicas", () -> with(LockOptions.defaults().replicas(1))),
                        new Row("heal", () -> with(LockOptions.defaults().heal(true))),
                        new Row("made once", () -> lock.begin(SECOND)))) {
            UnsupportedException refused =
                    assertThrows(UnsupportedException.class, row.wrong(), row.reason());
            assertTrue(refused.getMessage().contains(row.reason()), refused::getMessage);
            assertTrue(refused.getMessage().contains("quorum"), refused::getMessage);
        }
    }

    private Hold with(LockOptions options) throws InterruptedException {
        return client.lock(name, options).acquire(SECOND);
    }

    @Test
    void aHoldIsNotHandedOver() throws Exception {
        try (Hold hold = lock.acquire(LONG)) {
            assertThrows(UnsupportedException.class, hold::handOver);
            hold.check(); // it is held as before
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aWrongListIsRefused() {
        String place = SERVERS.get(0).tcpUrl.replace("redis://", "");
        assertThrows(
                IllegalArgumentException.class,
                () -> Holdfast.connect("redis+quorum://" + place));
        assertThrows(IllegalArgumentException.class, () -> Holdfast.connect(url(60))); // another quarantine
    }
}
