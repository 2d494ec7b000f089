import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Codec;
import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockDeadlockException;
import io.holdfast.LockTimeoutException;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.OutcomeUnknownException;
import io.holdfast.testing.TestRedis;
import io.vertx.core.Context;
import io.vertx.core.Future;
import io.vertx.core.Promise;
import io.vertx.core.Vertx;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.springframework.http.server.reactive.ReactorHttpHandlerAdapter;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.reactive.function.server.RouterFunction;
import org.springframework.web.reactive.function.server.RouterFunctions;
import org.springframework.web.reactive.function.server.ServerResponse;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Scheduler;
import reactor.core.scheduler.Schedulers;
import reactor.netty.DisposableServer;
import reactor.netty.http.server.HttpServer;

/** Callbacks that take turns on one thread: Reactor, WebFlux and Vert.x. */
final class EventLoopTest {
    private static final Duration WAIT = Duration.ofSeconds(30);

    private final TestRedis redis = TestRedis.start();
    private final HoldfastClient client = Holdfast.connect(redis.url());
    private final HoldfastLock lock = client.lock("turns");
    private final AtomicInteger inside = new AtomicInteger();

    @AfterEach
    void close() {
        client.close();
        redis.close();
    }

    private Mono<Long> turn(Hold hold, Scheduler loop) {
        assertEquals(1, inside.incrementAndGet());
        return Mono.delay(Duration.ofMillis(5), loop)
                .map(
                        done -> {
                            inside.decrementAndGet();
                            return hold.fence();
                        });
    }

    @Test
    void subscribersOnOneThreadExcludeEachOther() {
        Scheduler loop = Schedulers.newSingle("loop");
        List<Long> fences =
                Flux.range(0, 5)
                        .flatMap(
                                i ->
                                        MonoHolds.withHold(lock, WAIT, hold -> turn(hold, loop))
                                                .subscribeOn(loop))
                        .collectList()
                        .block();
        assertEquals(5, Set.copyOf(fences).size());
        assertFalse(lock.isLocked());
        assertThrows(
                IllegalStateException.class,
                () ->
                        MonoHolds.withHold(
                                        lock,
                                        WAIT,
                                        hold -> Mono.error(new IllegalStateException("no")))
                                .block());
        assertFalse(lock.isLocked());
        loop.dispose();
    }

    @Test
    void aSubscriberThatCancelsLeavesTheQueueOrReleases() throws Exception {
        Disposable holder = MonoHolds.withHold(lock, WAIT, hold -> Mono.never()).subscribe();
        until(lock::isLocked);
        Disposable waiter = MonoHolds.withHold(lock, WAIT, hold -> Mono.never()).subscribe();
        until(() -> lock.inspect().waiters() == 1);
        waiter.dispose();
        until(() -> lock.inspect().waiters() == 0);
        assertThrows(
                LockTimeoutException.class,
                () -> MonoHolds.withHold(lock, Duration.ZERO, hold -> Mono.just(1)).block());
        holder.dispose();
        until(() -> !lock.isLocked());
    }

    /** As docs/java.md states: the call is made once, and a cancelled call is not made again. */
    @Test
    void aMonoIsCalledAtMostOnce() throws Exception {
        OnceOptions<String> paid =
                OnceOptions.of(Duration.ofMinutes(1), Codec.UTF_8).atMostOnce(true);
        AtomicInteger calls = new AtomicInteger();
        Mono<String> vendor =
                Mono.delay(Duration.ofMillis(5)).map(done -> "paid " + calls.incrementAndGet());
        Mono<String> charge = once("charge", paid, vendor);
        List<String> told = Flux.range(0, 20).flatMap(i -> charge).collectList().block(WAIT);
        assertEquals(List.of("paid 1"), told.stream().distinct().toList());
        assertEquals(20, told.size());

        Mono<String> never = Mono.<String>never().doOnSubscribe(begun -> calls.incrementAndGet());
        Disposable cancelled = once("refund", paid, never).subscribe();
        until(() -> calls.get() == 2);
        cancelled.dispose();
        until(() -> client.onceResult("refund").orElseThrow().state() == Outcome.State.UNKNOWN);
        assertThrows(
                OutcomeUnknownException.class, () -> once("refund", paid, vendor).block(WAIT));
        assertEquals(2, calls.get());
    }

    private Mono<String> once(String name, OnceOptions<String> options, Mono<String> call) {
        return Mono.fromFuture(() -> client.onceAsync(name, options, call::toFuture));
    }

    /** A retry storm: four clients hang up while they wait, and the client that stays is next. */
    @Test
    void aRequestWhoseClientHangsUpLeavesTheQueue() throws Exception {
        CompletableFuture<Void> done = new CompletableFuture<>();
        AtomicInteger reports = new AtomicInteger();
        RouterFunction<ServerResponse> route =
                RouterFunctions.route()
                        .GET(
                                "/report",
                                request ->
                                        MonoHolds.withHold(
                                                lock,
                                                WAIT,
                                                hold -> {
                                                    assertEquals(1, inside.incrementAndGet());
                                                    reports.incrementAndGet();
                                                    return Mono.fromFuture(done, true)
                                                            .then(Mono.fromRunnable(inside::decrementAndGet))
                                                            .then(ServerResponse.ok().bodyValue("" + hold.fence()));
                                                }))
                        .build();
        DisposableServer server =
                HttpServer.create()
                        .host("127.0.0.1")
                        .port(0)
                        .handle(new ReactorHttpHandlerAdapter(RouterFunctions.toHttpHandler(route)))
                        .bindNow();
        WebClient web = WebClient.create("http://127.0.0.1:" + server.port());
        CompletableFuture<String> first = get(web);
        until(() -> reports.get() == 1);
        List<Disposable> dead = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            dead.add(web.get().uri("/report").retrieve().bodyToMono(String.class).subscribe());
        }
        until(() -> lock.inspect().waiters() == 4);
        CompletableFuture<String> live = get(web);
        until(() -> lock.inspect().waiters() == 5);
        dead.forEach(Disposable::dispose);
        until(() -> lock.inspect().waiters() == 1);
        done.complete(null);
        long fence = Long.parseLong(first.get(30, TimeUnit.SECONDS));
        assertTrue(Long.parseLong(live.get(30, TimeUnit.SECONDS)) > fence);
        assertEquals(2, reports.get());
        server.disposeNow();
    }

    private static CompletableFuture<String> get(WebClient web) {
        return web.get().uri("/report").retrieve().bodyToMono(String.class).toFuture();
    }

    @Test
    void callbacksOfOneContextOfVertxExcludeEachOther() throws Exception {
        Vertx vertx = Vertx.vertx();
        Context context = vertx.getOrCreateContext();
        List<Future<Long>> turns = new ArrayList<>();
        CompletableFuture<Object> refused = new CompletableFuture<>();
        context.runOnContext(
                start -> {
                    try (Hold hold = lock.acquire()) { // on the loop's own thread: never do this
                        lock.acquire(WAIT);
                        refused.complete("entered twice");
                    } catch (Throwable e) {
                        refused.complete(e);
                    }
                });
        assertEquals(LockDeadlockException.class, refused.get(30, TimeUnit.SECONDS).getClass());
        for (int i = 0; i < 5; i++) {
            Promise<Long> turn = Promise.promise();
            turns.add(turn.future());
            context.runOnContext(
                    start ->
                            VertxHolds.withHold(
                                            context,
                                            lock,
                                            WAIT,
                                            hold -> {
                                                assertEquals(1, inside.incrementAndGet());
                                                return vertx.timer(5, TimeUnit.MILLISECONDS)
                                                        .map(
                                                                done -> {
                                                                    inside.decrementAndGet();
                                                                    return hold.fence();
                                                                });
                                            })
                                    .onComplete(turn));
        }
        Future<?> all = Future.all(turns);
        all.toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
        assertEquals(5, turns.stream().map(Future::result).collect(Collectors.toSet()).size());
        assertFalse(lock.isLocked());
        vertx.close().toCompletionStage().toCompletableFuture().get(30, TimeUnit.SECONDS);
    }

    @Test
    void theGuideShowsThisCode() throws Exception {
        Path source = Path.of(System.getProperty("holdfast.source"));
        String page = Files.readString(source.resolve("docs/guides/eventloops.md"));
        for (String file :
                List.of("kotlin/Holds.kt", "java/MonoHolds.java", "java/VertxHolds.java")) {
            Path path = source.resolve("examples/eventloops/src/main").resolve(file);
            assertTrue(page.contains("// " + path.getFileName() + "\n" + Files.readString(path)), file);
        }
    }

    private interface Condition {
        boolean holds() throws Exception;
    }

    private static void until(Condition condition) throws Exception {
        while (!condition.holds()) {
            Thread.sleep(5);
        }
    }
}
