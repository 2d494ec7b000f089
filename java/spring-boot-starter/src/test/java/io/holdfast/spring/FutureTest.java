package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.refusal;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static io.holdfast.spring.Application.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.LockLostException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.core.task.TaskExecutor;
import org.springframework.http.ResponseEntity;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.web.context.request.async.DeferredResult;
import org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Locked methods that return futures. */
final class FutureTest {
    static class Payments {
        /** Of this class: the fields of a proxy are empty. */
        static final AtomicInteger CALLS = new AtomicInteger();

        @Locked("#{#name}")
        public CompletableFuture<String> pay(String name, CompletableFuture<String> work) {
            CALLS.incrementAndGet();
            return work;
        }

        @Locked("#{#name}")
        public CompletionStage<Object> stage(String name, Callable<CompletionStage<Object>> work)
                throws Exception {
            return work.call();
        }

        @Locked(name = "#{#name}", timeout = "50ms")
        public CompletableFuture<String> impatient(String name) {
            return CompletableFuture.completedFuture("mine");
        }

        @Locked(name = "#{#name}", lease = "100ms", renew = false)
        public CompletableFuture<String> shortly(String name, CompletableFuture<String> work) {
            return work;
        }

        @Async
        @Locked(name = "#{#name}", timeout = "10s")
        public CompletableFuture<String> async(String name) {
            assertTrue(CurrentHold.get().isValid());
            return CompletableFuture.completedFuture(Thread.currentThread().getName());
        }

        @Async
        @Locked(name = "#{#name}", timeout = "10s")
        public void later(String name, CompletableFuture<String> where) {
            where.complete(CurrentHold.get().isValid() + " " + Thread.currentThread().getName());
        }
    }

    @EnableAsync
    static class WithAsync {}

    @EnableAsync(order = 0)
    static class WithEarlyAsync {}

    private static ConfigurableApplicationContext application;
    private static HoldfastClient client;
    private static Payments payments;
    private String name;

    @BeforeAll
    static void begin() {
        application =
                start(
                        Map.of("spring.task.execution.thread-name-prefix", "pool-of-spring-"),
                        Payments.class,
                        WithAsync.class);
        client = client(application);
        payments = application.getBean(Payments.class);
    }

    @AfterAll
    static void end() {
        application.close();
    }

    @BeforeEach
    void name() {
        name = unique();
    }

    private static <T> T get(Future<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private static Throwable failure(Future<?> future) {
        return assertThrows(ExecutionException.class, () -> get(future)).getCause();
    }

    private boolean isLocked() {
        return client.lock(name).isLocked();
    }

    @Test
    void theLockIsKeptUntilTheFutureIsDone() throws Exception {
        CompletableFuture<String> work = new CompletableFuture<>();
        CompletableFuture<String> result = payments.pay(name, work);
        until(this::isLocked);
        assertFalse(result.isDone());
        work.complete("paid");
        assertEquals("paid", get(result));
        assertFalse(isLocked());
    }

    @Test
    void noThreadWaitsForTheLock() throws Exception {
        int before = Payments.CALLS.get();
        CompletableFuture<String> result;
        try (Hold hold = client.lock(name).acquire()) {
            result = payments.pay(name, CompletableFuture.completedFuture("paid"));
            until(() -> client.lock(name).inspect().waiters() == 1);
            assertFalse(result.isDone());
            assertEquals(before, Payments.CALLS.get());
        }
        assertEquals("paid", get(result));
    }

    @Test
    void twoCallsOfOneThreadExcludeEachOther() throws Exception {
        CompletableFuture<String> work = new CompletableFuture<>();
        CompletableFuture<String> one = payments.pay(name, work);
        until(this::isLocked);
        assertInstanceOf(LockBusyException.class, failure(payments.impatient(name)));
        work.complete("paid");
        get(one);
        assertEquals("mine", get(payments.impatient(name)));
    }

    @Test
    void busySaysWhoHasIt() throws Exception {
        try (Hold hold = client.lock(name).acquire()) {
            var busy = (LockBusyException) failure(payments.impatient(name));
            assertEquals(hold.fence(), busy.holders().get(0).fence());
            assertTrue(busy.getMessage().contains("Payments.impatient(String)"), busy.getMessage());
        }
    }

    @Test
    void aRefusalThatCannotBeMadeEndsTheFuture() {
        Error full = new AssertionError("as if the heap were full");
        CompletableFuture<Object> refused =
                new LockedFuture(hold -> null)
                        .acquire(
                                CompletableFuture.failedFuture(new IllegalStateException()),
                                ForkJoinPool.commonPool(),
                                failure -> {
                                    throw full;
                                });
        ExecutionException failed =
                assertThrows(ExecutionException.class, () -> refused.get(20, TimeUnit.SECONDS));
        assertSame(full, failed.getCause());
    }

    @Test
    void aCancelEndsTheWait() throws Exception {
        int before = Payments.CALLS.get();
        try (Hold hold = client.lock(name).acquire()) {
            CompletableFuture<String> result = payments.pay(name, new CompletableFuture<>());
            until(() -> client.lock(name).inspect().waiters() == 1);
            assertTrue(result.cancel(true));
            until(() -> client.lock(name).inspect().waiters() == 0);
        }
        assertFalse(isLocked());
        assertEquals(before, Payments.CALLS.get());
    }

    @Test
    void aTimeoutOfTheCallersOwnEndsTheWaitToo() throws Exception {
        int before = Payments.CALLS.get();
        try (Hold hold = client.lock(name).acquire()) {
            CompletableFuture<String> result =
                    payments.pay(name, new CompletableFuture<>()).orTimeout(50, TimeUnit.MILLISECONDS);
            assertInstanceOf(TimeoutException.class, failure(result));
            until(() -> client.lock(name).inspect().waiters() == 0);
        }
        assertEquals(before, Payments.CALLS.get());
    }

    @Test
    void aCancelEndsTheWorkAndReleases() throws Exception {
        CompletableFuture<String> work = new CompletableFuture<>();
        int before = Payments.CALLS.get();
        CompletableFuture<String> result = payments.pay(name, work);
        until(() -> Payments.CALLS.get() > before);
        assertTrue(isLocked());
        assertTrue(result.cancel(true));
        until(work::isCancelled);
        until(() -> !isLocked());
    }

    @Test
    void aStageThatCannotBeCancelledKeepsTheLockUntilItIsDone() throws Exception {
        CompletableFuture<Object> work = new CompletableFuture<>();
        CountDownLatch called = new CountDownLatch(1);
        CompletableFuture<Object> result =
                payments.stage(
                                name,
                                () -> {
                                    called.countDown();
                                    return work.minimalCompletionStage();
                                })
                        .toCompletableFuture();
        called.await();
        assertTrue(result.cancel(true));
        assertFalse(work.isDone());
        assertTrue(isLocked());
        work.complete("done");
        until(() -> !isLocked());
    }

    @Test
    void whateverTheMethodDoesItIsReleased() throws Exception {
        IOException own = new IOException("the method's");
        var thrown = payments.stage(name, () -> { throw own; }).toCompletableFuture();
        assertSame(own, failure(thrown));
        assertFalse(isLocked());
        var failed = payments.stage(name, () -> CompletableFuture.failedFuture(own)).toCompletableFuture();
        assertSame(own, failure(failed));
        assertFalse(isLocked());
        assertNull(get(payments.stage(name, () -> null).toCompletableFuture()));
        assertFalse(isLocked());
    }

    @Test
    void aLostLockIsToldWhenTheFutureIsDone() throws Exception {
        CompletableFuture<String> work = new CompletableFuture<>();
        CompletableFuture<String> result = payments.shortly(name, work);
        until(this::isLocked);
        until(() -> !isLocked());
        assertFalse(result.isDone());
        work.complete("too late");
        assertInstanceOf(LockLostException.class, failure(result));

        IOException own = new IOException("the method's");
        CompletableFuture<String> failing = new CompletableFuture<>();
        result = payments.shortly(name, failing);
        until(this::isLocked);
        until(() -> !isLocked());
        failing.completeExceptionally(own);
        assertSame(own, failure(result));
        assertInstanceOf(LockLostException.class, own.getSuppressed()[0]);
    }

    @Test
    void theMethodIsCalledWhereSpringRunsTheRest() throws Exception {
        var where =
                payments.stage(
                        name,
                        () -> {
                            assertTrue(CurrentHold.get().isValid());
                            return CompletableFuture.completedFuture(
                                    Thread.currentThread().getName());
                        });
        String thread = (String) get(where.toCompletableFuture());
        assertTrue(thread.startsWith("pool-of-spring-"), thread);
    }

    @Test
    void withAsyncTheThreadOfAsyncHoldsIt() throws Exception {
        CompletableFuture<String> result;
        CompletableFuture<String> where = new CompletableFuture<>();
        try (Hold hold = client.lock(name).acquire()) {
            result = payments.async(name);
            payments.later(name, where);
            until(() -> client.lock(name).inspect().waiters() == 2);
            assertFalse(result.isDone());
        }
        assertTrue(get(result).startsWith("pool-of-spring-"), result::join);
        assertTrue(get(where).startsWith("true pool-of-spring-"), where::join);
        until(() -> !isLocked());
    }

    @Test
    void asyncIsOutsideTheLockWhateverItsOrder() throws Exception {
        CompletableFuture<String> where = new CompletableFuture<>();
        try (var other = start(Map.of(), Payments.class, WithEarlyAsync.class)) {
            other.getBean(Payments.class).later(name, where);
            assertTrue(get(where).startsWith("true "), where::join);
        }
    }

    // ------------------------------------------------------- Without Spring's

    static class Refusing {
        @Bean
        TaskExecutor applicationTaskExecutor() {
            return work -> {
                throw new RejectedExecutionException("full");
            };
        }
    }

    @Test
    void anExecutorThatRefusesReleases() {
        try (var other = start(Map.of(), Payments.class, Refusing.class)) {
            Payments refused = other.getBean(Payments.class);
            var result = refused.pay(name, CompletableFuture.completedFuture("never"));
            assertInstanceOf(RejectedExecutionException.class, failure(result));
            assertFalse(isLocked());
        }
    }

    static class Exhausted {
        @Bean
        TaskExecutor applicationTaskExecutor() {
            return work -> {
                throw new OutOfMemoryError("unable to create native thread");
            };
        }
    }

    @Test
    void anExecutorThatGetsNoThreadReleases() {
        try (var other = start(Map.of(), Payments.class, Exhausted.class)) {
            Payments refused = other.getBean(Payments.class);
            var result = refused.pay(name, CompletableFuture.completedFuture("never"));
            assertInstanceOf(OutOfMemoryError.class, failure(result));
            assertFalse(isLocked());
        }
    }

    static class Own {
        @Bean
        TaskExecutor another() {
            return Runnable::run;
        }
    }

    @Test
    void withoutAnExecutorItIsAThreadOfHoldfast() throws Exception {
        ClassLoader own = new ClassLoader(getClass().getClassLoader()) {};
        try (var other = start(Map.of(), Payments.class, Own.class)) {
            Payments there = other.getBean(Payments.class);
            ClassLoader before = Thread.currentThread().getContextClassLoader();
            Thread.currentThread().setContextClassLoader(own);
            try {
                var seen =
                        there.stage(
                                name,
                                () -> {
                                    Thread.sleep(0);
                                    return CompletableFuture.completedFuture(
                                            Thread.currentThread().getContextClassLoader());
                                });
                assertSame(own, get(seen.toCompletableFuture()));
            } finally {
                Thread.currentThread().setContextClassLoader(before);
            }
        }
    }

    // ------------------------------------------------------------ Refused

    static class ReturnsMono {
        @Locked("name")
        public Mono<String> pay() {
            return Mono.empty();
        }
    }

    static class ReturnsFuture {
        @Locked("name")
        public Future<String> pay() {
            return null;
        }
    }

    static class ReturnsStream {
        @Locked("name")
        public Stream<String> pay() {
            return null;
        }
    }

    static class ReturnsBody {
        @Locked("name")
        public ResponseEntity<StreamingResponseBody> pay() {
            return null;
        }
    }

    static class ReturnsEvents {
        @Locked("name")
        public ResponseEntity<Flux<String>> pay() {
            return null;
        }
    }

    static final class Later extends DeferredResult<String> {}

    static class ReturnsLater {
        @Locked("name")
        public Later pay() {
            return null;
        }
    }

    @Test
    void whatGoesOnWithoutASignIsRefused() {
        for (Class<?> bean :
                List.of(
                        ReturnsMono.class,
                        ReturnsFuture.class,
                        ReturnsStream.class,
                        ReturnsBody.class,
                        ReturnsEvents.class,
                        ReturnsLater.class)) {
            String said = refusal(bean);
            assertTrue(said.contains(bean.getSimpleName() + ".pay()"), said);
            assertTrue(said.contains("CompletableFuture"), said);
        }
    }
}
