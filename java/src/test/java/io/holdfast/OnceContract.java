package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** What once() must do, on a Redis or in memory. */
abstract class OnceContract extends ClientTest {
    static final Duration TTL = Duration.ofMinutes(1);

    static String unwanted() {
        throw new AssertionError("called once more");
    }

    private String once(String result) throws Exception {
        return lock.once(TTL, Duration.ZERO, Codec.UTF_8, () -> result);
    }

    private String left() throws Exception {
        return lock.once(TTL, Duration.ZERO, Codec.UTF_8, OnceContract::unwanted);
    }

    private void untilWaiting(int waiters) throws Exception {
        until(() -> lock.inspect().waiters() == waiters);
    }

    @Test
    void theFirstCallsItAndAllOthersGetItsResult() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        List<Async<String>> threads = new ArrayList<>();
        List<CompletableFuture<String>> futures = new ArrayList<>();
        HoldfastClient other = connect();
        CountDownLatch answer = new CountDownLatch(1);
        for (int i = 0; i < 50; i++) {
            HoldfastClient mine = i % 2 == 0 ? client : other;
            threads.add(
                    Async.start(
                            () ->
                                    mine.once(
                                            name,
                                            TTL,
                                            Codec.UTF_8,
                                            () -> {
                                                calls.incrementAndGet();
                                                answer.await();
                                                return "ä€";
                                            })));
        }
        until(() -> calls.get() == 1);
        for (int i = 0; i < 50; i++) {
            HoldfastClient mine = i % 2 == 0 ? client : other;
            futures.add(
                    mine.onceAsync(
                            name,
                            TTL,
                            Codec.UTF_8,
                            () -> CompletableFuture.supplyAsync(OnceContract::unwanted)));
        }
        untilWaiting(99);
        answer.countDown();
        for (Async<String> each : threads) {
            assertEquals("ä€", each.get());
        }
        for (CompletableFuture<String> each : futures) {
            assertEquals("ä€", each.get(20, TimeUnit.SECONDS));
        }
        assertEquals(1, calls.get());
        assertEquals("ä€", left());
        assertFalse(lock.isLocked());
        assertTrue(lock.inspect().result().toSeconds() >= 30, lock.inspect().toString());
        LockStats mine = client.stats().all();
        LockStats its = other.stats().all();
        other.close();
        assertEquals(1, mine.acquired() + its.acquired());
        assertEquals(100, mine.done() + its.done());
        assertEquals(1, mine.released() + its.released());
    }

    @Test
    void whoFailsPassesTheTurnOn() throws Exception {
        CountDownLatch go = new CountDownLatch(1);
        Async<String> first =
                Async.start(
                        () ->
                                client.once(
                                        name,
                                        TTL,
                                        Codec.UTF_8,
                                        () -> {
                                            go.await();
                                            throw new IOException("vendor");
                                        }));
        until(lock::isLocked);
        Async<String> second =
                Async.start(() -> client.once(name, TTL, Codec.UTF_8, () -> "second"));
        untilWaiting(1);
        Async<String> third =
                Async.start(() -> client.once(name, TTL, Codec.UTF_8, OnceContract::unwanted));
        untilWaiting(2);
        go.countDown();
        assertEquals("vendor", assertThrowsExactly(IOException.class, first::get).getMessage());
        assertEquals("second", second.get());
        assertEquals("second", third.get());
    }

    @Test
    void aFutureThatFailsPassesTheTurnOn() throws Exception {
        CompletableFuture<String> vendor = new CompletableFuture<>();
        CompletableFuture<String> first = client.onceAsync(name, TTL, Codec.UTF_8, () -> vendor);
        until(lock::isLocked);
        CompletableFuture<String> second =
                client.onceAsync(
                        name, TTL, Codec.UTF_8, () -> CompletableFuture.completedFuture("second"));
        untilWaiting(1);
        vendor.completeExceptionally(new IOException("vendor"));
        Throwable failure =
                assertThrows(ExecutionException.class, () -> first.get(20, TimeUnit.SECONDS));
        assertEquals("vendor", failure.getCause().getMessage());
        assertEquals("second", second.get(20, TimeUnit.SECONDS));
        CompletableFuture<String> throwing =
                client.lock(name + 2)
                        .onceAsync(
                                TTL,
                                LONG,
                                Codec.UTF_8,
                                () -> {
                                    throw new IllegalStateException("no vendor");
                                });
        assertThrows(ExecutionException.class, () -> throwing.get(20, TimeUnit.SECONDS));
        assertFalse(client.lock(name + 2).isLocked());
    }

    @Test
    void aCancelledFuturePassesTheTurnOn() throws Exception {
        CompletableFuture<String> vendor = new CompletableFuture<>();
        CompletableFuture<String> first = client.onceAsync(name, TTL, Codec.UTF_8, () -> vendor);
        until(lock::isLocked);
        CompletableFuture<String> gone = client.onceAsync(name, TTL, Codec.UTF_8, () -> vendor);
        untilWaiting(1);
        Async<String> second =
                Async.start(() -> client.once(name, TTL, Codec.UTF_8, () -> "second"));
        untilWaiting(2);
        assertTrue(gone.cancel(true));
        untilWaiting(1);
        assertTrue(first.cancel(true));
        assertThrowsExactly(CancellationException.class, first::get);
        assertEquals("second", second.get());
        assertTrue(vendor.isCancelled());
        assertEquals("second", left());
        assertFalse(lock.isLocked());
    }

    @Test
    void anInterruptEndsAWaitAndACall() throws Exception {
        CountDownLatch never = new CountDownLatch(1);
        Async<String> first =
                Async.start(
                        () ->
                                client.once(
                                        name,
                                        TTL,
                                        Codec.UTF_8,
                                        () -> {
                                            never.await();
                                            return "never";
                                        }));
        until(lock::isLocked);
        Async<String> second =
                Async.start(() -> client.once(name, TTL, Codec.UTF_8, OnceContract::unwanted));
        untilWaiting(1);
        second.thread.interrupt();
        assertThrowsExactly(InterruptedException.class, second::get);
        untilWaiting(0);
        first.thread.interrupt();
        assertThrowsExactly(InterruptedException.class, first::get);
        until(() -> !lock.isLocked());
        assertEquals("third", once("third"));
    }

    @Test
    void aWaitEndsWithItsTimeout() throws Exception {
        stranger.lock();
        for (Duration timeout : new Duration[] {Duration.ZERO, Duration.ofMillis(10)}) {
            assertThrowsExactly(
                    LockTimeoutException.class,
                    () -> lock.once(TTL, timeout, Codec.UTF_8, OnceContract::unwanted));
            Throwable failure =
                    assertThrows(
                            ExecutionException.class,
                            () ->
                                    lock.onceAsync(TTL, timeout, Codec.UTF_8, () -> null)
                                            .get(20, TimeUnit.SECONDS));
            assertEquals(LockTimeoutException.class, failure.getCause().getClass());
        }
        stranger.unlock();
        assertEquals("mine", once("mine"));
    }

    @Test
    void whatIsWrongIsRefusedAndPassesTheTurnOn() throws Exception {
        for (Duration ttl : new Duration[] {Duration.ofMillis(9999), Duration.ofDays(3651)}) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> lock.once(ttl, LONG, Codec.UTF_8, OnceContract::unwanted));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> lock.onceAsync(ttl, LONG, Codec.UTF_8, () -> null));
        }
        assertThrows(IllegalArgumentException.class, () -> lock.begin(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> lock.beginAsync(Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> once("\ud800"));
        assertThrows(NullPointerException.class, () -> once(null));
        Exception tooLong =
                assertThrows(IllegalArgumentException.class, () -> once("x".repeat(16777217)));
        assertTrue(tooLong.getMessage().contains("at most 16777216"), tooLong.getMessage());
        assertThrows(
                ExecutionException.class,
                () ->
                        client.onceAsync(
                                        name,
                                        TTL,
                                        Codec.BYTES,
                                        () -> CompletableFuture.completedFuture(new byte[16777217]))
                                .get(20, TimeUnit.SECONDS));
        assertFalse(lock.isLocked());
        String longest = "x".repeat(16777216);
        assertEquals(longest, once(longest));
        assertEquals(longest, left());
    }

    @Test
    void aCodecIsTwoFunctions() throws Exception {
        Codec<Integer> numbers =
                Codec.of(
                        number -> Integer.toString(number).getBytes(StandardCharsets.US_ASCII),
                        bytes -> Integer.valueOf(new String(bytes, StandardCharsets.US_ASCII)));
        assertEquals(42, client.once(name, TTL, numbers, () -> 42));
        assertEquals("42", left());
        byte[] bytes = {0, -1, 0};
        for (int i = 0; i < 2; i++) {
            assertArrayEquals(bytes, client.once(name + 2, TTL, Codec.BYTES, () -> bytes));
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> client.once(name + 2, TTL, Codec.UTF_8, OnceContract::unwanted));
        assertEquals("", client.once(name + 3, TTL, Codec.UTF_8, () -> ""));
        assertEquals("", client.once(name + 3, TTL, Codec.UTF_8, OnceContract::unwanted));
    }

    @Test
    void aTurnIsFinishedOrPassedOn() throws Exception {
        Turn turn = lock.begin(LONG);
        assertTrue(turn.result().isEmpty());
        assertTrue(turn.hold().fence() > 0);
        assertThrows(IllegalArgumentException.class, () -> turn.finish(new byte[16777217], TTL));
        assertThrows(IllegalArgumentException.class, () -> turn.finish(new byte[1], SECOND));
        assertTrue(turn.hold().isValid());
        turn.hold().release();
        assertThrowsExactly(LockNotHeldException.class, () -> turn.finish(new byte[1], TTL));
        Turn next = lock.beginAsync(LONG).get(20, TimeUnit.SECONDS);
        CompletableFuture<Turn> waiting = lock.beginAsync(LONG);
        untilWaiting(1);
        next.finishAsync(new byte[] {7}, TTL).get(20, TimeUnit.SECONDS);
        Turn done = waiting.get(20, TimeUnit.SECONDS);
        assertArrayEquals(new byte[] {7}, done.result().orElseThrow());
        assertThrowsExactly(IllegalStateException.class, done::hold);
        assertThrowsExactly(IllegalStateException.class, () -> done.finish(new byte[1], TTL));
    }

    @Test
    void aLostTurnIsTheNextOnesAndItsResultTheCallers() throws Exception {
        LockOptions brief = LockOptions.defaults().lease(Duration.ofMillis(100)).renew(false);
        String late =
                client.lock(name, brief)
                        .once(
                                TTL,
                                LONG,
                                Codec.UTF_8,
                                () -> {
                                    until(() -> !lock.isLocked());
                                    return "late";
                                });
        assertEquals("late", late);
        assertEquals("mine", once("mine"));
    }

    @Test
    void aClosedClientEndsTheWaits() throws Exception {
        HoldfastClient other = connect();
        lock.lock();
        CompletableFuture<String> waiting =
                other.onceAsync(name, TTL, Codec.UTF_8, () -> null);
        untilWaiting(1);
        other.close();
        Throwable failure =
                assertThrows(ExecutionException.class, () -> waiting.get(20, TimeUnit.SECONDS));
        assertEquals(ClosedException.class, failure.getCause().getClass());
        lock.unlock();
    }
}
