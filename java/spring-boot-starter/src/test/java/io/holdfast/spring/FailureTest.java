package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.elsewhere;
import static io.holdfast.spring.Application.join;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static io.holdfast.spring.Application.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.ClosedException;
import io.holdfast.ConnectionFailedException;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastException;
import io.holdfast.LockLostException;
import io.holdfast.LockTimeoutException;
import io.holdfast.testing.TestRedis;
import jakarta.annotation.PreDestroy;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What goes wrong around a locked method. */
final class FailureTest {
    static class Jobs {
        @Locked(name = "#{#name}", timeout = "${patience:10s}", lease = "1s")
        public <T> T run(String name, Callable<T> work) throws Exception {
            return work.call();
        }

        @Locked(name = "#{#name}", timeout = "${patience:10s}")
        public CompletableFuture<String> start(String name, CompletableFuture<String> work) {
            return work;
        }
    }

    private String name;

    @BeforeEach
    void name() {
        name = unique();
    }

    private static String urlOfNobody() {
        try (TestRedis gone = TestRedis.start()) {
            return gone.url() + HASTY;
        }
    }

    private static final String HASTY = "?connect_timeout=0.3&command_timeout=0.3";

    @Test
    void theApplicationStartsWhileRedisIsDown() {
        Map<String, Object> properties =
                Map.of("holdfast.url", urlOfNobody(), "patience", "500ms");
        try (var application = start(properties, Jobs.class)) {
            Jobs jobs = application.getBean(Jobs.class);
            assertThrows(ConnectionFailedException.class, () -> jobs.run(name, () -> "never"));
            var later = jobs.start(name, CompletableFuture.completedFuture("never"));
            var e = assertThrows(ExecutionException.class, later::get);
            assertInstanceOf(ConnectionFailedException.class, e.getCause());
        }
    }

    @Test
    void notLazyItDoesNotStart() {
        Map<String, Object> properties =
                Map.of("holdfast.url", urlOfNobody(), "holdfast.lazy", "false");
        Exception e = assertThrows(Exception.class, () -> start(properties, Jobs.class).close());
        assertTrue(Application.said(e).contains("ConnectionFailedException"), Application.said(e));
    }

    @Test
    void redisThatDiesIsNeverToldAsBusy() throws Exception {
        TestRedis redis = TestRedis.start();
        Map<String, Object> properties =
                Map.of("holdfast.url", redis.url() + HASTY, "patience", "5s");
        try (redis;
                var one = start(properties, Jobs.class);
                var other = start(properties, Jobs.class)) {
            CountDownLatch held = new CountDownLatch(1);
            FutureTask<String> holding =
                    elsewhere(
                            () ->
                                    one.getBean(Jobs.class)
                                            .run(
                                                    name,
                                                    () -> {
                                                        held.countDown();
                                                        var hold = CurrentHold.get();
                                                        until(() -> !hold.isValid());
                                                        return "the method has ended";
                                                    }));
            held.await();
            FutureTask<String> waiting =
                    elsewhere(() -> other.getBean(Jobs.class).run(name, () -> "never"));
            until(() -> client(one).lock(name).inspect().waiters() == 1);
            redis.close();
            assertThrows(LockLostException.class, () -> join(holding));
            HoldfastException e = assertThrows(HoldfastException.class, () -> join(waiting));
            assertFalse(e instanceof LockTimeoutException, e::toString);
        }
    }

    @Test
    void theEndOfTheApplicationEndsTheWait() throws Exception {
        try (HoldfastClient elsewhere = Holdfast.connect(Application.url());
                var hold = elsewhere.lock(name).acquire()) {
            var application = start(Map.of(), Jobs.class);
            Jobs jobs = application.getBean(Jobs.class);
            FutureTask<String> waiting = elsewhere(() -> jobs.run(name, () -> "never"));
            var later = jobs.start(name, CompletableFuture.completedFuture("never"));
            until(() -> elsewhere.lock(name).inspect().waiters() == 2);
            application.close();
            assertThrows(ClosedException.class, () -> join(waiting));
            var e = assertThrows(ExecutionException.class, later::get);
            assertInstanceOf(ClosedException.class, e.getCause());
            assertEquals(0, elsewhere.lock(name).inspect().waiters());
        }
    }

    @Test
    void theEndOfTheApplicationReleases() throws Exception {
        try (HoldfastClient elsewhere = Holdfast.connect(Application.url())) {
            var application = start(Map.of(), Jobs.class);
            Jobs jobs = application.getBean(Jobs.class);
            CountDownLatch held = new CountDownLatch(1);
            CountDownLatch end = new CountDownLatch(1);
            FutureTask<String> holding =
                    elsewhere(
                            () ->
                                    jobs.run(
                                            name,
                                            () -> {
                                                held.countDown();
                                                end.await();
                                                return "the method has ended";
                                            }));
            held.await();
            CompletableFuture<String> work = new CompletableFuture<>();
            var later = jobs.start(name + ":future", work);
            until(() -> work.getNumberOfDependents() > 0); // the method has returned it
            assertTrue(elsewhere.lock(name + ":future").isLocked());
            application.close();
            assertFalse(elsewhere.lock(name).isLocked());
            assertFalse(elsewhere.lock(name + ":future").isLocked());
            end.countDown();
            assertThrows(ClosedException.class, () -> join(holding));
            work.complete("too late");
            var e = assertThrows(ExecutionException.class, () -> later.get(20, TimeUnit.SECONDS));
            assertInstanceOf(ClosedException.class, e.getCause());
        }
    }

    /** Its last call is to a bean that does not know the client. */
    static class Farewell {
        static final CompletableFuture<String> SAID = new CompletableFuture<>();
        private final Jobs jobs;

        Farewell(Jobs jobs) {
            this.jobs = jobs;
        }

        @PreDestroy
        void say() throws Exception {
            SAID.complete(jobs.run("spring:farewell", () -> "under the lock"));
        }
    }

    @Test
    void theClientIsClosedAfterTheBeansWithLocks() {
        // Made before the client, they would be destroyed after it.
        start(Map.of("spring.main.lazy-initialization", "false"), Farewell.class, Jobs.class)
                .close();
        assertEquals("under the lock", Farewell.SAID.getNow("not called"));
    }
}
