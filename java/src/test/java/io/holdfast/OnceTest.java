package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;

/** once() on a Redis. */
final class OnceTest extends OnceContract {
    private Jedis redis;

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

    private Jvm.Run program(String what) throws Exception {
        return Jvm.run(
                List.of("-Xcheck:jni"),
                Jvm.program(OnceProgram.class),
                RedisTest.SERVER.tcpUrl,
                name,
                what);
    }

    @Test
    void aHundredCallersInTwoProcessesAreOneCall() throws Exception {
        Async<Jvm.Run> other = Async.start(() -> program("there"));
        Jvm.Run one = program("here");
        Jvm.Run two = other.get();
        assertEquals(one, two);
        assertTrue(List.of("[here]", "[there]").contains(one.output()), one.output());
    }

    @Test
    void whoIsKilledPassesTheTurnOn() throws Exception {
        assertEquals(9, program("die").status());
        assertEquals("second", lock.once(TTL, LONG, Codec.UTF_8, () -> "second"));
    }

    @Test
    void aTurnThatCannotBeMarkedIsPassedOn() throws Exception {
        OnceOptions<String> options = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        Field unknownTtl = OnceOptions.class.getDeclaredField("unknownTtl");
        unknownTtl.setAccessible(true);
        unknownTtl.set(options, null); // as if the heap had run out
        assertThrows(NullPointerException.class, () -> lock.begin(options));
        until(() -> !lock.isLocked());
        CompletableFuture<Turn> begun = lock.beginAsync(options);
        ExecutionException failed =
                assertThrows(ExecutionException.class, () -> begun.get(20, TimeUnit.SECONDS));
        assertEquals(NullPointerException.class, failed.getCause().getClass());
        until(() -> !lock.isLocked());
    }

    @Test
    void aResultStaysForItsTtl() throws Exception {
        String key = "{" + name + "}" + name + ":hf1:r";
        assertEquals("1", client.once(name, TTL, Codec.UTF_8, () -> "1"));
        long left = redis.pttl(key);
        assertTrue(left > 50_000 && left <= 60_000, "stays for " + left);
        redis.del(key); // as when its time is over
        assertEquals("2", client.once(name, TTL, Codec.UTF_8, () -> "2"));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aResultThatTheServerCannotKeepIsTheCallers(boolean async) throws Exception {
        try {
            String result =
                    async
                            ? client.onceAsync(
                                            name,
                                            TTL,
                                            Codec.UTF_8,
                                            () -> CompletableFuture.completedFuture(full()))
                                    .get(20, TimeUnit.SECONDS)
                            : client.once(name, TTL, Codec.UTF_8, this::full);
            assertEquals("first", result);
        } finally {
            mayKeep("+hset");
        }
        until(() -> !redis.exists(name));
        assertEquals("second", client.once(name, TTL, Codec.UTF_8, () -> "second"));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void whatWasPaidForIsTheCallersAndNobodyPaysAgain(boolean async) throws Exception {
        OnceOptions<String> paid = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        ResultNotKeptException kept;
        try {
            if (async) {
                Throwable failed =
                        assertThrows(
                                ExecutionException.class,
                                () ->
                                        lock.onceAsync(
                                                        paid,
                                                        () ->
                                                                CompletableFuture.completedFuture(
                                                                        full()))
                                                .get(20, TimeUnit.SECONDS));
                kept = (ResultNotKeptException) failed.getCause();
            } else {
                kept = assertThrows(
                        ResultNotKeptException.class, () -> lock.once(paid, this::full));
            }
        } finally {
            mayKeep("+hset");
        }
        assertEquals("first", kept.result());
        assertEquals(ResultNotKeptException.Reason.SERVER, kept.reason());
        until( // the client goes on trying
                () -> lock.onceResult().orElseThrow().state() == Outcome.State.DONE);
        assertEquals("first", lock.once(paid, OnceContract::unwanted));
    }

    @Test
    void whatTheServerDoesNotKnowIsNotCalled() throws Exception {
        OnceOptions<String> paid = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        mayKeep("-hset");
        try {
            assertThrows(ServerException.class, () -> lock.once(paid, OnceContract::unwanted));
        } finally {
            mayKeep("+hset");
        }
        assertEquals("mine", lock.once(paid, () -> "mine"));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void absentCallsWithoutAServer(boolean async) throws Exception {
        OnceOptions<String> paid = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        ClientOptions options =
                ClientOptions.defaults().lazy(true).connectTimeout(Duration.ofMillis(100));
        try (HoldfastClient absent = Holdfast.connect("unix:///nonexistent/absent", options)) {
            if (async) {
                CompletableFuture<String> future =
                        absent.onceAsync(
                                name,
                                paid,
                                () -> CompletableFuture.supplyAsync(OnceContract::unwanted));
                ExecutionException failed =
                        assertThrows(
                                ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS));
                assertEquals(ConnectionFailedException.class, failed.getCause().getClass());
            } else {
                assertThrows(
                        ConnectionFailedException.class,
                        () -> absent.once(name, paid, OnceContract::unwanted));
            }
        }
    }

    /** The server is away when the result is ready: the client goes on sending it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aPaidResultIsKeptOnceTheServerIsBack(boolean async) throws Exception {
        OnceOptions<String> paid = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        ClientOptions options = ClientOptions.defaults().commandTimeout(Duration.ofMillis(500));
        try (Proxy way = new Proxy(RedisTest.SERVER.tcpUrl);
                HoldfastClient far = Holdfast.connect(way.url(), options)) {
            ResultNotKeptException kept;
            if (async) {
                CompletableFuture<String> future =
                        far.onceAsync(
                                name,
                                paid,
                                () -> {
                                    way.hold(Proxy.Way.REQUESTS);
                                    return CompletableFuture.completedFuture("paid");
                                });
                ExecutionException failed =
                        assertThrows(
                                ExecutionException.class, () -> future.get(60, TimeUnit.SECONDS));
                kept = (ResultNotKeptException) failed.getCause();
            } else {
                kept =
                        assertThrows(
                                ResultNotKeptException.class,
                                () ->
                                        far.once(
                                                name,
                                                paid,
                                                () -> {
                                                    way.hold(Proxy.Way.REQUESTS);
                                                    return "paid";
                                                }));
            }
            assertEquals("paid", kept.result());
            assertEquals(ResultNotKeptException.Reason.UNREACHABLE, kept.reason());
            way.letGo();
            until(
                    () ->
                            client.onceResult(name).orElseThrow().state()
                                    == Outcome.State.DONE);
            assertEquals("paid", client.once(name, paid, OnceContract::unwanted));
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void absentCallsBeforeEnoughReplicasKnow(boolean async) throws Exception {
        OnceOptions<String> paid = OnceOptions.of(TTL, Codec.UTF_8).atMostOnce(true);
        HoldfastLock picky =
                client.lock(name, LockOptions.defaults().replicas(1, Duration.ofMillis(100)));
        if (async) {
            CompletableFuture<String> future =
                    picky.onceAsync(
                            paid, () -> CompletableFuture.supplyAsync(OnceContract::unwanted));
            ExecutionException failed =
                    assertThrows(ExecutionException.class, () -> future.get(20, TimeUnit.SECONDS));
            assertEquals(LockNotReplicatedException.class, failed.getCause().getClass());
        } else {
            assertThrows(
                    LockNotReplicatedException.class,
                    () -> picky.once(paid, OnceContract::unwanted));
        }
        assertEquals("mine", lock.once(paid, () -> "mine"));
    }

    private String full() {
        mayKeep("-hset");
        return "first";
    }

    private void mayKeep(String right) {
        try (Jedis admin = RedisTest.SERVER.look()) {
            admin.sendCommand(Protocol.Command.ACL, "SETUSER", "default", right);
        }
    }
}
