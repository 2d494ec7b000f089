package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** What a gate must do, on a Redis or in memory. */
abstract class GateContract extends ClientTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private static void assertAboutAMinute(Duration wait) {
        assertTrue(wait.toSeconds() >= 30 && wait.compareTo(MINUTE.plusMillis(1)) <= 0, "" + wait);
    }

    @Test
    void soManyPassAndNoMore() {
        Gate gate = client.gate(name, 3, MINUTE);
        assertEquals(Duration.ZERO, gate.freeIn());
        for (int i = 0; i < 3; i++) {
            gate.enter();
        }
        assertFalse(gate.tryEnter());
        GateFullException full = assertThrowsExactly(GateFullException.class, gate::enter);
        assertAboutAMinute(full.retryAfter());
        assertTrue(full.getMessage().contains(name), full.getMessage());
        assertTrue(LockTimeoutException.class.isInstance(full));
        assertTrue(client.gate(name, 4, MINUTE).tryEnter());
    }

    @Test
    void aHeavyPassTakesItsWeight() throws Exception {
        Gate gate = client.gate(name, 5, MINUTE);
        Gate heavy = gate.weight(3);
        heavy.enter();
        assertEquals(Duration.ZERO, gate.weight(2).freeIn());
        assertAboutAMinute(heavy.freeIn());
        assertFalse(heavy.tryEnter());
        assertAboutAMinute(
                assertThrowsExactly(GateFullException.class, heavy::enter).retryAfter());
        assertTrue(heavy.weight(2).tryEnterAsync(Duration.ZERO).get(20, TimeUnit.SECONDS));
        assertFalse(gate.tryEnter());
        for (long wrong : new long[] {0, -1, 6}) {
            assertThrows(IllegalArgumentException.class, () -> gate.weight(wrong));
        }
    }

    @Test
    void aHeavyPassIsFreeWhenEnoughHaveEnded() throws Exception {
        Gate gate = client.gate(name, 3, MINUTE);
        LockOptions brief = LockOptions.defaults().permits(3).reentrant(false).renew(false);
        gate.weight(2).enter();
        try (Hold hold =
                client.lock(name, brief.lease(Duration.ofSeconds(30)))
                        .shared()
                        .acquire(Duration.ZERO)) {
            assertTrue(gate.freeIn().toMillis() <= 30_001);
            assertTrue(gate.weight(2).freeIn().toMillis() > 30_001);
        }
        assertEquals(Duration.ZERO, gate.freeIn());
    }

    @Test
    void aGateWithoutNumbersFollowsTheStoredRate() throws Exception {
        Gate gate = client.gate(name);
        for (long permits : new long[] {0, 4}) {
            client.limit(name, permits);
            for (Executable asked : List.<Executable>of(gate::enter, gate::freeIn)) {
                LimitDiffersException none =
                        assertThrowsExactly(LimitDiffersException.class, asked);
                assertTrue(none.getMessage().contains("no rate is stored"), none.getMessage());
            }
        }
        client.limit(name, 3, MINUTE);
        gate.weight(2).enter();
        assertEquals(Duration.ZERO, gate.freeIn());
        gate.enter(LONG);
        assertAboutAMinute(assertThrowsExactly(GateFullException.class, gate::enter).retryAfter());
        assertFalse(client.gate(name, 3, MINUTE).tryEnter());
        assertFalse(client.gate(name).tryEnterAsync(Duration.ZERO).get(20, TimeUnit.SECONDS));
        client.limit(name, 4, Duration.ofSeconds(50));
        gate.enter();
        assertThrowsExactly(LimitDiffersException.class, () -> gate.weight(5).enter());
        assertTrue(lock.inspect().holders().get(0).remaining().toSeconds() <= 50);
    }

    @Test
    void aPassIsFreeAgainAfterItsTime() throws Exception {
        Gate gate = client.gate(name, 2, Duration.ofMillis(300));
        long start = System.nanoTime();
        for (int passed = 0; passed < 6; ) {
            try {
                gate.enter();
                passed++;
            } catch (GateFullException full) {
                Thread.sleep(full.retryAfter().toMillis());
            }
        }
        assertTrue(secondsSince(start) >= 0.55);
    }

    @Test
    void whoWaitsPassesInItsTurn() throws Exception {
        Gate gate = client.gate(name, 1, Duration.ofMillis(400));
        long start = System.nanoTime();
        gate.enter();
        // Or this machine was too slow; here and below.
        boolean early = gate.tryEnter(Duration.ofMillis(20));
        assertTrue(!early || secondsSince(start) >= 0.35);
        gate.enter(LONG);
        long last = System.nanoTime();
        assertTrue(gate.tryEnter(LONG));
        assertTrue(secondsSince(start) >= 0.75);
        boolean again = gate.tryEnter(); // the last pass too lasts for its whole time
        assertTrue(!again || secondsSince(last) >= 0.75);
    }

    @Test
    void aPassThatWasWaitedForLastsForItsWholeTime() throws Exception {
        Gate gate = client.gate(name, 2, MINUTE);
        Hold hold = lock.acquire();
        Async<Boolean> waiting = Async.start(() -> gate.tryEnter(LONG));
        until(() -> lock.inspect().waiters() == 1);
        hold.close();
        assertTrue(waiting.get());
        assertTrue(lock.inspect().remaining().toSeconds() >= 30);
    }

    @Test
    void aPassOutlivesItsClient() {
        try (HoldfastClient other = connect()) {
            other.gate(name, 2, MINUTE).enter();
        }
        Gate gate = client.gate(name, 2, MINUTE);
        gate.enter();
        assertFalse(gate.tryEnter());
    }

    @Test
    void theLockKeepsTheGateShut() throws Exception {
        Gate gate = client.gate(name, 1, MINUTE);
        try (Hold hold = lock.acquire()) {
            GateFullException full = assertThrowsExactly(GateFullException.class, gate::enter);
            assertTrue(full.retryAfter().toMillis() <= 10_001);
        }
        gate.enter();
    }

    @Test
    void aFuturePasses() throws Exception {
        Gate gate = client.gate(name, 3, MINUTE);
        List<CompletableFuture<Boolean>> all = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            all.add(gate.tryEnterAsync(Duration.ZERO));
        }
        int passed = 0;
        for (CompletableFuture<Boolean> each : all) {
            passed += each.get(20, TimeUnit.SECONDS) ? 1 : 0;
        }
        assertEquals(3, passed);
        CompletableFuture<Boolean> waiting = gate.tryEnterAsync(LONG);
        until(() -> lock.inspect().waiters() == 1);
        assertTrue(waiting.cancel(true));
        until(() -> lock.inspect().waiters() == 0);
        CompletableFuture<Boolean> ended = gate.tryEnterAsync(Duration.ofHours(1));
        until(() -> lock.inspect().waiters() == 1);
        ended.completeExceptionally(new TimeoutException());
        until(() -> lock.inspect().waiters() == 0);
        Gate brief = client.gate(name + 2, 1, Duration.ofMillis(200));
        brief.enter();
        assertTrue(brief.tryEnterAsync(LONG).get(20, TimeUnit.SECONDS));
        assertFalse(brief.tryEnter());
    }

    @Test
    void aPassThatCannotBeSpentIsGivenBack() throws Exception {
        Hold pass = lock.acquire();
        Hold broken =
                (Hold)
                        Proxy.newProxyInstance(
                                Hold.class.getClassLoader(),
                                new Class<?>[] {Hold.class},
                                (proxy, method, arguments) -> {
                                    if (method.getName().equals("handOver")) {
                                        throw new ServerException("it is loading");
                                    }
                                    return method.invoke(pass, arguments);
                                });
        HoldfastLock gives =
                (HoldfastLock)
                        Proxy.newProxyInstance(
                                HoldfastLock.class.getClassLoader(),
                                new Class<?>[] {HoldfastLock.class},
                                (proxy, method, arguments) ->
                                        method.getName().equals("acquire") ? broken : proxy);
        Gate gate = Gate.of(options -> gives, 1, MINUTE);
        assertThrows(ServerException.class, gate::tryEnter);
        until(() -> !lock.isLocked());
    }

    @Test
    void anInterruptedWaitHasNotPassed() throws Exception {
        Gate gate = client.gate(name, 1, MINUTE);
        gate.enter();
        Async<Object> waiting =
                Async.start(
                        () -> assertThrows(InterruptedException.class, () -> gate.enter(LONG)));
        until(() -> lock.inspect().waiters() == 1);
        waiting.thread.interrupt();
        waiting.get();
        until(() -> lock.inspect().waiters() == 0);
    }

    @Test
    void itIsExactUnderFiftyThreadsOfTwoClients() throws Exception {
        try (HoldfastClient other = connect()) {
            List<Async<Integer>> all = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                Gate gate = (i % 2 == 0 ? client : other).gate(name, 40, MINUTE);
                all.add(
                        Async.start(
                                () -> {
                                    int passed = 0;
                                    for (int round = 0; round < 5; round++) {
                                        passed += gate.tryEnter() ? 1 : 0;
                                    }
                                    return passed;
                                }));
            }
            int passed = 0;
            for (Async<Integer> each : all) {
                passed += each.get();
            }
            assertEquals(40, passed);
            assertEquals(40, lock.inspect().count());
        }
    }

    @Test
    void wrongLimitsAreRefused() {
        for (long limit : new long[] {0, -1, 10_000_000_000L}) {
            assertThrows(
                    IllegalArgumentException.class, () -> client.gate(name, limit, MINUTE));
        }
        for (Duration per : List.of(Duration.ZERO, Duration.ofSeconds(-1), Duration.ofMillis(1))) {
            assertThrows(IllegalArgumentException.class, () -> client.gate(name, 1, per));
        }
        client.close();
        assertThrowsExactly(ClosedException.class, () -> client.gate(name, 1, MINUTE));
    }

    @Test
    void anInterruptedThreadMayTry() {
        Gate gate = client.gate(name, 1, MINUTE);
        Thread.currentThread().interrupt();
        assertTrue(gate.tryEnter());
        assertTrue(Thread.interrupted());
        Thread.currentThread().interrupt();
        assertThrowsExactly(InterruptedException.class, () -> gate.tryEnter(MINUTE));
        assertFalse(Thread.interrupted());
    }
}
