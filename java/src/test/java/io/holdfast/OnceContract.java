package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertThrowsExactly;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
    void aFutureEndsAlsoIfItsNextTurnCannotBegin() throws Exception {
        AtomicInteger tries = new AtomicInteger();
        CompletableFuture<String> future =
                new Once<>(
                                lock,
                                OnceOptions.of(TTL, Codec.UTF_8),
                                null,
                                options -> {
                                    if (tries.incrementAndGet() > 1) {
                                        throw new OutOfMemoryError("in a test");
                                    }
                                    return CompletableFuture.failedFuture(
                                            new LockLostException("before the call"));
                                },
                                null)
                        .start(() -> CompletableFuture.completedFuture(unwanted()));
        ExecutionException failed =
                assertThrows(ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS));
        assertInstanceOf(OutOfMemoryError.class, failed.getCause());
    }

    @Test
    void whoseTurnIsLostBeforeTheCallAsksAgainForTheRestOfTheTimeout() throws Exception {
        for (Duration timeout : new Duration[] {Duration.ZERO, Duration.ofMillis(300)}) {
            for (boolean async : new boolean[] {false, true}) {
                List<Duration> asked = new ArrayList<>();
                OnceOptions<String> terms = OnceOptions.of(TTL, Codec.UTF_8).timeout(timeout);
                Once.Begin lose =
                        options -> {
                            asked.add(options.timeout());
                            assertTrue(asked.size() < 9, asked.toString());
                            Thread.sleep(100);
                            throw new LockLostException("before the call");
                        };
                Once<String> once =
                        new Once<>(
                                lock,
                                terms,
                                lose,
                                options -> {
                                    try {
                                        return CompletableFuture.completedFuture(
                                                lose.begin(options));
                                    } catch (Exception e) {
                                        return CompletableFuture.failedFuture(e);
                                    }
                                },
                                null);
                if (async) {
                    CompletableFuture<String> future =
                            once.start(() -> CompletableFuture.completedFuture(unwanted()));
                    ExecutionException failed =
                            assertThrows(
                                    ExecutionException.class,
                                    () -> future.get(20, TimeUnit.SECONDS));
                    assertInstanceOf(LockLostException.class, failed.getCause());
                } else {
                    assertThrows(LockLostException.class, () -> once.call(OnceContract::unwanted));
                }
                assertEquals(timeout, asked.get(0));
                for (int i = 1; i < asked.size(); i++) {
                    assertTrue(asked.get(i).compareTo(asked.get(i - 1)) < 0, asked.toString());
                }
            }
        }
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
        assertEquals(
                100,
                mine.answered().get(CallOutcome.DONE) + its.answered().get(CallOutcome.DONE));
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
        until(() -> vendor.getNumberOfDependents() > 0); // it was called
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
        for (String result : new String[] {"\ud800", null, "x".repeat(16777217)}) {
            ResultNotKeptException paid =
                    assertThrows(ResultNotKeptException.class, () -> once(result));
            assertEquals(result, paid.<String>result());
            assertEquals(ResultNotKeptException.Reason.ENCODING, paid.reason());
            assertTrue(
                    result == null || result.length() < 2
                            ? paid.getCause() != null
                            : paid.getMessage().contains("at most 16777216"),
                    paid.getMessage());
        }
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

    // ------------------------------------------------------------ At most once

    /** A public one that takes its message. */
    public static final class Declined extends Exception {
        private static final long serialVersionUID = 1;

        /** As others are told of it. */
        public Declined(String message) {
            super(message);
        }
    }

    private static final OnceOptions<String> PAID =
            OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true).note("order 7");

    private String paid(OnceOptions<String> options, String result) throws Exception {
        return lock.once(options, () -> result);
    }

    private void dies() throws Exception {
        lock.begin(PAID).hold().close();
    }

    private OutcomeUnknownException unknown() {
        return assertThrows(
                OutcomeUnknownException.class, () -> lock.once(PAID, OnceContract::unwanted));
    }

    @Test
    void atMostOnceIsOnceWhileNothingGoesWrong() throws Exception {
        Turn turn = lock.begin(PAID);
        Outcome running = lock.onceResult().orElseThrow();
        assertEquals(Outcome.State.RUNNING, running.state());
        assertTrue(running.atMostOnce());
        assertEquals(turn.hold().fence(), running.fence());
        assertEquals("order 7", running.note());
        assertEquals(Hold.FOREVER, running.ttl());
        assertThrows(LockTimeoutException.class, running::retry);
        CompletableFuture<String> waiting =
                lock.onceAsync(PAID, () -> CompletableFuture.supplyAsync(OnceContract::unwanted));
        untilWaiting(1);
        turn.finish("paid".getBytes(StandardCharsets.UTF_8), TTL);
        assertEquals("paid", waiting.get(20, TimeUnit.SECONDS));
        assertEquals("paid", lock.once(PAID, OnceContract::unwanted));
        Outcome done = lock.onceResult().orElseThrow();
        assertEquals(Outcome.State.DONE, done.state());
        assertArrayEquals("paid".getBytes(StandardCharsets.UTF_8), done.result().orElseThrow());
        assertThrows(OutcomeSettledException.class, done::retry);
        assertTrue(client.onceForget(name, false));
        assertFalse(client.onceForget(name, false));
        assertTrue(lock.onceResult().isEmpty());
        assertThrows(LockNotHeldException.class, done::forget);
        CompletableFuture<String> future =
                lock.onceAsync(PAID, () -> CompletableFuture.completedFuture("again"));
        assertEquals("again", future.get(20, TimeUnit.SECONDS));
        assertEquals("again", lock.once(PAID, OnceContract::unwanted));
    }

    @Test
    void anUnknownOutcomeMayEnd() throws Exception {
        lock.begin(PAID.unknownTtl(Duration.ofMinutes(1))).hold().close();
        Outcome unknown = lock.onceResult().orElseThrow();
        assertEquals(Outcome.State.UNKNOWN, unknown.state());
        assertEquals(Duration.ofMinutes(1), unknown.ttl()); // until a caller learns of it
        assertThrows(
                OutcomeUnknownException.class, () -> lock.once(PAID, OnceContract::unwanted));
        unknown = lock.onceResult().orElseThrow();
        assertTrue(unknown.ttl().toSeconds() > 20 && unknown.ttl().toSeconds() <= 60);
        for (Duration wrong : List.of(Duration.ofSeconds(9), Duration.ofDays(4000))) {
            assertThrows(IllegalArgumentException.class, () -> PAID.unknownTtl(wrong));
        }
    }

    @Test
    void callsAreCountedByTheirOutcome() throws Exception {
        OnceOptions<String> seven = PAID.args("7");
        Exception timeout = new IOException("timeout");
        assertThrows(IOException.class, () -> failing(seven, timeout));
        unknown().retry();
        lock.begin(seven).withdraw();
        OnceOptions<String> keeps = seven.keep(Declined.class);
        assertThrows(Declined.class, () -> failing(keeps, new Declined("broke")));
        assertThrows(Declined.class, () -> lock.once(keeps, OnceContract::unwanted));
        assertThrows(
                FingerprintMismatchException.class,
                () -> lock.once(PAID.args("8"), OnceContract::unwanted));
        client.onceForget(name, false);
        assertEquals("paid", paid(PAID, "paid"));
        assertEquals("paid", lock.once(PAID, OnceContract::unwanted));
        client.onceForget(name, false);
        Turn settled = lock.begin(PAID);
        client.onceForget(name, true);
        assertThrows(OutcomeSettledException.class, () -> settled.finish(new byte[] {1}, TTL));
        LockStats all = client.stats().all();
        assertEquals(
                Map.of(
                        CallOutcome.DONE, 1L,
                        CallOutcome.FAILED, 1L,
                        CallOutcome.UNKNOWN, 1L,
                        CallOutcome.MISMATCH, 1L),
                all.answered());
        assertEquals(5, all.begun());
        assertEquals(
                Map.of(
                        CallOutcome.DONE, 1L,
                        CallOutcome.FAILED, 1L,
                        CallOutcome.UNKNOWN, 1L,
                        CallOutcome.RETRY, 1L,
                        CallOutcome.UNKEPT, 1L),
                all.finished());
    }

    @Test
    void nobodyCallsAfterAnOutcomeThatIsUnknown() throws Exception {
        Turn turn = lock.begin(PAID);
        CompletableFuture<Turn> waiting = lock.beginAsync(PAID);
        untilWaiting(1);
        turn.hold().close(); // as when its process dies
        ExecutionException told =
                assertThrows(ExecutionException.class, () -> waiting.get(20, TimeUnit.SECONDS));
        OutcomeUnknownException unknown = (OutcomeUnknownException) told.getCause();
        assertEquals(turn.hold().fence(), unknown.fence());
        assertEquals("order 7", unknown.note());
        assertFalse(unknown.owner().isEmpty());
        assertTrue(unknown.since().toEpochMilli() > 0);
        assertEquals(Outcome.State.UNKNOWN, lock.onceResult().orElseThrow().state());
        unknown().resolve("asked".getBytes(StandardCharsets.UTF_8), TTL);
        assertEquals("asked", lock.once(PAID, OnceContract::unwanted));
        assertThrows(OutcomeSettledException.class, unknown::retry);
    }

    @Test
    void whoSettlesAnOutcomeSaysWhatIsNext() throws Exception {
        dies();
        unknown().retry();
        assertEquals(Outcome.State.RETRY, lock.onceResult().orElseThrow().state());
        dies();
        unknown().forget();
        assertEquals("paid", paid(PAID, "paid"));
        client.onceForget(name, false);
        dies();
        unknown().outcome().resolveError(new Declined("no \"money\" ä"), TTL);
        KeptErrorException kept =
                assertThrows(
                        KeptErrorException.class, () -> lock.once(PAID, OnceContract::unwanted));
        assertEquals("Declined", kept.type());
        assertEquals("no \"money\" ä", kept.errorMessage());
        assertTrue(kept.data().isEmpty());
        client.onceForget(name, false);
        Turn running = lock.begin(PAID);
        client.onceForget(name, true);
        assertThrows(
                OutcomeSettledException.class, () -> running.finish(new byte[] {1}, TTL));
        assertEquals("paid", paid(PAID, "paid"));
        client.onceForget(name, false);
        Turn withdrawn = lock.begin(PAID);
        client.onceForget(name, true);
        withdrawn.withdraw(); // which leaves no outcome that could be missed
        assertTrue(lock.onceResult().isEmpty());
    }

    @Test
    void anErrorIsKeptOrSaysThatNothingWasCalledOrIsUnknown() throws Exception {
        OnceOptions<String> options =
                PAID.keep(Declined.class)
                        .keepTtl(Duration.ofMinutes(2))
                        .notCalled(java.net.ConnectException.class);
        Exception refused = new java.net.ConnectException("refused");
        assertEquals(refused, assertThrows(Exception.class, () -> failing(options, refused)));
        Declined declined = new Declined("broke");
        assertEquals(declined, assertThrows(Exception.class, () -> failing(options, declined)));
        assertTrue(lock.onceResult().orElseThrow().ttl().toSeconds() > 90);
        Declined told =
                assertThrows(
                        Declined.class, () -> lock.once(options, OnceContract::unwanted));
        assertEquals("broke", told.getMessage());
        assertThrows(
                KeptErrorException.class, () -> lock.once(PAID, OnceContract::unwanted));
        ExecutionException later =
                assertThrows(
                        ExecutionException.class,
                        () -> lock.onceAsync(options, () -> null).get(20, TimeUnit.SECONDS));
        assertEquals(Declined.class, later.getCause().getClass());
        client.onceForget(name, false);
        Exception timeout = new IOException("timeout");
        assertEquals(timeout, assertThrows(Exception.class, () -> failing(options, timeout)));
        assertTrue(unknown().note().contains("timeout"), unknown().note());
        unknown().retry();
        OnceOptions<String> all =
                PAID.keep(
                        e -> {
                            throw new IllegalStateException("a wrong predicate");
                        });
        assertEquals(timeout, assertThrows(Exception.class, () -> failing(all, timeout)));
        unknown();
    }

    private String failing(OnceOptions<String> options, Exception error) throws Exception {
        return lock.once(
                options,
                () -> {
                    throw error;
                });
    }

    @Test
    void errorsOfFuturesEndTheSameWay() throws Exception {
        OnceOptions<String> options = PAID.keep(e -> e instanceof Declined);
        CompletableFuture<String> failed =
                lock.onceAsync(
                        options, () -> CompletableFuture.failedFuture(new Declined("broke")));
        assertThrows(ExecutionException.class, () -> failed.get(20, TimeUnit.SECONDS));
        assertEquals(
                "broke", lock.onceResult().orElseThrow().error().orElseThrow().errorMessage());
        client.onceForget(name, false);
        CompletableFuture<String> vendor = new CompletableFuture<>();
        CompletableFuture<String> cancelled = lock.onceAsync(PAID, () -> vendor);
        until(() -> lock.onceResult().isPresent());
        until(() -> vendor.getNumberOfDependents() > 0);
        assertTrue(cancelled.cancel(true));
        until(() -> !lock.isLocked());
        unknown().retry();
        CompletableFuture<String> none =
                lock.onceAsync(PAID, () -> CompletableFuture.completedFuture(null));
        ExecutionException paid =
                assertThrows(ExecutionException.class, () -> none.get(20, TimeUnit.SECONDS));
        assertEquals(
                ResultNotKeptException.Reason.ENCODING,
                ((ResultNotKeptException) paid.getCause()).reason());
        unknown();
    }

    @Test
    void otherArgumentsAndTheOtherModeAreRefused() throws Exception {
        assertEquals("7", paid(PAID.args("{\"order\":7}"), "7"));
        assertEquals("7", lock.once(PAID.args("{\"order\":7}"), OnceContract::unwanted));
        assertEquals("7", lock.once(PAID, OnceContract::unwanted));
        for (OnceOptions<String> other :
                List.of(
                        PAID.args("{\"order\":8}"),
                        PAID.atMostOnce(false))) {
            assertThrows(
                    FingerprintMismatchException.class,
                    () -> lock.once(other, OnceContract::unwanted));
        }
        client.onceForget(name, false);
        lock.begin(PAID.args("7")).withdraw();
        assertThrows(
                FingerprintMismatchException.class,
                () -> lock.once(PAID.args("8"), OnceContract::unwanted));
        assertEquals("7", paid(PAID.args("7"), "7"));
    }

    @Test
    void aPaidResultIsKeptThoughTheHoldWasLost() throws Exception {
        Turn turn = lock.begin(PAID);
        stranger.forceUnlock();
        unknown();
        turn.finish("late".getBytes(StandardCharsets.UTF_8), TTL);
        assertEquals("late", lock.once(PAID, OnceContract::unwanted));
        client.onceForget(name, false);
        Turn slow = lock.begin(PAID);
        stranger.forceUnlock();
        unknown().retry();
        slow.finish("late".getBytes(StandardCharsets.UTF_8), TTL); // before another began again
        assertEquals("late", lock.once(PAID, OnceContract::unwanted));
    }

    @Test
    void aPaidResultThatIsNotKeptIsInTheException() throws Exception {
        ResultNotKeptException settled =
                assertThrows(
                        ResultNotKeptException.class,
                        () ->
                                lock.once(
                                        PAID,
                                        () -> {
                                            stranger.forceUnlock();
                                            unknown().resolve(new byte[] {'x'}, TTL);
                                            return "mine";
                                        }));
        assertEquals("mine", settled.<String>result());
        assertEquals(ResultNotKeptException.Reason.SETTLED, settled.reason());
        assertEquals(OutcomeSettledException.class, settled.getCause().getClass());
        assertEquals("x", lock.once(PAID, OnceContract::unwanted));
        client.onceForget(name, false);
        Codec<String> broken =
                Codec.of(
                        text -> {
                            throw new IllegalStateException("broken");
                        },
                        bytes -> "");
        OnceOptions<String> wrong = OnceOptions.of(TTL, broken).atMostOnce(true);
        ResultNotKeptException paid =
                assertThrows(ResultNotKeptException.class, () -> paid(wrong, "mine"));
        assertEquals("mine", paid.<String>result());
        assertEquals("broken", paid.getCause().getMessage());
        assertTrue(unknown().note().contains("broken"), unknown().note());
        paid.resolve("shorter".getBytes(StandardCharsets.UTF_8), TTL);
        assertEquals("shorter", lock.once(PAID, OnceContract::unwanted));
        assertThrows(
                OutcomeSettledException.class, () -> paid.resolve(new byte[] {1}, TTL));
    }

    @Test
    void theMakerOfAResultThatTheCodecCannotDecodeHasItAndALaterCallerGetsTheException()
            throws Exception {
        Codec<String> broken =
                Codec.of(
                        text -> text.getBytes(StandardCharsets.UTF_8),
                        bytes -> {
                            throw new IllegalStateException("broken");
                        });
        ResultNotKeptException kept =
                assertThrows(
                        ResultNotKeptException.class,
                        () -> lock.once(TTL, LONG, broken, () -> "mine"));
        assertEquals("mine", kept.<String>result());
        assertEquals("broken", kept.getCause().getMessage());
        assertEquals("mine", once("mine"));
        assertThrowsExactly(
                IllegalStateException.class,
                () -> lock.once(TTL, LONG, broken, OnceContract::unwanted));
    }

    @Test
    void aTurnThatIsGivenBackOrFailsSaysSo() throws Exception {
        Turn turn = lock.begin(PAID);
        turn.withdraw();
        assertThrowsExactly(LockNotHeldException.class, turn::withdraw);
        lock.begin(PAID).unknown("x".repeat(2000));
        assertEquals(1024, unknown().note().length());
        unknown().retry();
        lock.begin(PAID).fail(new Declined("broke"), TTL);
        assertThrows(KeptErrorException.class, () -> lock.begin(PAID));
        client.onceForget(name, false);
        Turn other = lock.begin(LONG); // in the other mode
        other.unknown("not known");
        assertEquals("mine", once("mine"));
        assertThrows(IllegalArgumentException.class, () -> PAID.note("x".repeat(1025)));
        assertThrows(IllegalArgumentException.class, () -> PAID.unknownTtl(SECOND));
        assertThrows(IllegalArgumentException.class, () -> PAID.keepTtl(SECOND));
    }

    @Test
    void whoLosesTheLockBeforeItsCallAsksAgain() throws Exception {
        AtomicInteger losses = new AtomicInteger();
        LockLostException lost = new LockLostException("too late");
        Once<String> losing =
                new Once<>(
                        name,
                        PAID,
                        options -> {
                            if (losses.incrementAndGet() % 3 != 0) {
                                throw lost;
                            }
                            return lock.begin(options);
                        },
                        options ->
                                losses.incrementAndGet() % 3 != 0
                                        ? CompletableFuture.failedFuture(lost)
                                        : lock.beginAsync(options),
                        lock::onceResult);
        assertEquals("mine", losing.call(() -> "mine"));
        assertEquals(3, losses.get());
        client.onceForget(name, false);
        CompletableFuture<String> future =
                losing.start(() -> CompletableFuture.completedFuture("its"));
        assertEquals("its", future.get(20, TimeUnit.SECONDS));
        assertEquals(6, losses.get());
    }

    @Test
    void aLongMessageIsCutBetweenCharacters() {
        byte[] kept = KeptErrorException.encoded(new Declined("x".repeat(4095) + "\uD83D\uDE00"));
        assertEquals("x".repeat(4095), KeptErrorException.decoded(kept).errorMessage());
    }

    @Test
    void errorsOfPythonsCallersAreRead() {
        KeptErrorException error =
                KeptErrorException.decoded(
                        ("{\"type\": \"CardDeclined\", \"message\": \"a\\u00e4\\n\\\"\", "
                                        + "\"data\": {\"a\": [1, \"}\"]}}")
                                .getBytes(StandardCharsets.UTF_8));
        assertEquals("CardDeclined", error.type());
        assertEquals("aä\n\"", error.errorMessage());
        assertEquals("{\"a\": [1, \"}\"]}", error.data().orElseThrow());
        for (String bad : List.of("", "{", "{\"type\":1}", "no json", "{\"type\":\"x")) {
            KeptErrorException raw =
                    KeptErrorException.decoded(bad.getBytes(StandardCharsets.UTF_8));
            assertEquals("", raw.type());
            assertEquals(bad, raw.errorMessage());
        }
    }

    /** An error whose message cannot be made. */
    private static final class Unspeakable extends RuntimeException {
        private static final long serialVersionUID = 1;

        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    /** What the future fails with, bare: some errors cannot be wrapped. */
    private static Throwable failed(CompletableFuture<?> future) throws Exception {
        return future.handle((result, failure) -> failure).get(20, TimeUnit.SECONDS);
    }

    @Test
    void anErrorThatCannotBeToldEndsTheTurn() throws Exception {
        Exception error = new Unspeakable();
        OnceOptions<String> kept = PAID.keep(Unspeakable.class);
        assertEquals(error, assertThrows(Unspeakable.class, () -> failing(kept, error)));
        assertFalse(lock.isLocked());
        assertTrue(unknown().note().contains("Unspeakable"), unknown().note());
        unknown().retry();
        assertEquals(
                error, failed(lock.onceAsync(kept, () -> CompletableFuture.failedFuture(error))));
        unknown().retry();
        CompletableFuture<String> throwing =
                lock.onceAsync(
                        kept,
                        () -> {
                            throw new Unspeakable();
                        });
        assertInstanceOf(Unspeakable.class, failed(throwing));
        unknown().retry();
    }

    @Test
    void anErrorOfAPredicateEndsTheTurn() throws Exception {
        OnceOptions<String> wrong =
                PAID.notCalled(
                        e -> {
                            throw new NoClassDefFoundError("vendor/Refused");
                        });
        Exception error = new IOException("vendor");
        assertEquals(error, assertThrows(IOException.class, () -> failing(wrong, error)));
        assertFalse(lock.isLocked());
        unknown().retry();
        assertEquals(
                error, failed(lock.onceAsync(wrong, () -> CompletableFuture.failedFuture(error))));
        unknown().retry();
    }

    @Test
    void aLongErrorIsKeptShortened() throws Exception {
        Exception error = new Declined("x".repeat(1 << 24));
        OnceOptions<String> kept = PAID.keep(Declined.class);
        assertEquals(error, assertThrows(Declined.class, () -> failing(kept, error)));
        Declined told =
                assertThrows(Declined.class, () -> lock.once(kept, OnceContract::unwanted));
        assertTrue(error.getMessage().startsWith(told.getMessage()));
        assertFalse(told.getMessage().isEmpty());
        client.onceForget(name, false);
        assertEquals(
                error, failed(lock.onceAsync(kept, () -> CompletableFuture.failedFuture(error))));
    }

    @Test
    void nullIsNoResultOfACall() throws Exception {
        dies();
        OutcomeUnknownException unknown = unknown();
        assertThrows(NullPointerException.class, () -> unknown.resolve(null, TTL));
        assertThrows(NullPointerException.class, () -> unknown.outcome().resolveError(null, TTL));
        unknown().forget();
        Turn turn = lock.begin(Duration.ZERO);
        assertThrows(NullPointerException.class, () -> turn.end(null, new byte[0], Duration.ZERO));
        turn.withdraw(); // it stayed
        Class<? extends Throwable> none = null;
        assertThrows(NullPointerException.class, () -> PAID.keep(none));
        assertThrows(NullPointerException.class, () -> PAID.notCalled(none));
    }

    @Test
    void aPaidResultIsInTheExceptionWhateverTheCodecsErrorIs() throws Exception {
        OnceOptions<String> options =
                OnceOptions.<String>of(
                                TTL,
                                Codec.of(
                                        result -> {
                                            throw new Unspeakable();
                                        },
                                        bytes -> ""))
                        .atMostOnce(true);
        ResultNotKeptException paid =
                assertThrows(ResultNotKeptException.class, () -> lock.once(options, () -> "paid"));
        assertEquals("paid", paid.<String>result());
        unknown().retry();
        Throwable failed =
                failed(lock.onceAsync(options, () -> CompletableFuture.completedFuture("paid")));
        assertEquals("paid", assertInstanceOf(ResultNotKeptException.class, failed).<String>result());
        unknown().retry();
    }

    /** A class of which no object can be made. */
    public static final class Broken extends RuntimeException {
        private static final long serialVersionUID = 1;
        private static final int NUMBER = Integer.parseInt("none");

        public Broken(String message) {
            super(message + NUMBER);
        }
    }

    /** The same of another program. */
    private static final class Elsewhere {
        private static final class Broken extends RuntimeException {
            private static final long serialVersionUID = 1;
        }
    }

    @Test
    void anErrorWhoseClassIsBrokenIsToldAllTheSame() throws Exception {
        dies();
        unknown().outcome().resolveError(new Elsewhere.Broken(), TTL);
        OnceOptions<String> options = PAID.keep(Broken.class);
        for (int i = 0; i < 2; i++) { // as Java says it first, and from then on
            assertInstanceOf(
                    KeptErrorException.class, failed(lock.onceAsync(options, () -> null)));
            assertThrows(
                    KeptErrorException.class, () -> lock.once(options, OnceContract::unwanted));
        }
    }
}
