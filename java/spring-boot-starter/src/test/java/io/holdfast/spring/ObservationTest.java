package io.holdfast.spring;

import static io.holdfast.spring.Application.until;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.micrometer.HoldfastObservations;
import io.holdfast.testing.InMemoryHoldfast;
import io.holdfast.testing.TestRedis;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationHandler;
import io.micrometer.observation.ObservationRegistry;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;

/** Spans and timers of annotated methods, by Micrometer's observations. */
final class ObservationTest {
    private static final List<Observation.Context> ENDED = new CopyOnWriteArrayList<>();

    static class Work {
        static final CountDownLatch LEADS = new CountDownLatch(1);
        private final ObservationRegistry registry;

        Work(ObservationRegistry registry) {
            this.registry = registry;
        }

        private String current() {
            Observation current = registry.getCurrentObservation();
            return current == null ? "" : current.getContextView().getName();
        }

        @Locked(name = "#{#id}", timeout = "0s")
        public String locked(String id) {
            return current();
        }

        @Locked(name = "#{#id}", timeout = "20s")
        public CompletableFuture<String> later(String id) {
            return CompletableFuture.completedFuture(current());
        }

        @Locked(name = "failing")
        public void fails() {
            throw new IllegalStateException("work");
        }

        @OncePer("1h")
        public java.util.Optional<String> periodic() {
            return java.util.Optional.of(current());
        }

        @Leading("matcher")
        void lead() {
            if (current().equals("holdfast.lock.lead")) {
                LEADS.countDown();
            }
        }
    }

    @EnableAutoConfiguration
    static class Application {
        @Bean
        ObservationRegistry registry() {
            ObservationRegistry registry = ObservationRegistry.create();
            registry.observationConfig()
                    .observationHandler(
                            new ObservationHandler<Observation.Context>() {
                                @Override
                                public void onStop(Observation.Context context) {
                                    if (!context.getName().equals("holdfast.lock.lead")) {
                                        ENDED.add(context); // terms end when they like
                                    }
                                }

                                @Override
                                public boolean supportsContext(Observation.Context context) {
                                    return context.getName().startsWith("holdfast.");
                                }
                            });
            return registry;
        }

        @Bean
        Work work(ObservationRegistry registry) {
            return new Work(registry);
        }
    }

    private static List<String> names() {
        return ENDED.stream().map(Observation.Context::getName).toList();
    }

    private static String value(Observation.Context context, String key) {
        return context.getHighCardinalityKeyValue(key).getValue();
    }

    @Test
    void annotatedMethodsAreObserved() throws Exception {
        try (TestRedis redis = TestRedis.start();
                ConfigurableApplicationContext context =
                        SpringApplication.run(
                                Application.class,
                                "--holdfast.url=" + redis.url(),
                                "--spring.main.web-application-type=none")) {
            Work work = context.getBean(Work.class);
            assertThat(work.locked("a")).isEqualTo("holdfast.lock.hold");
            assertThat(names()).containsExactly("holdfast.lock.wait", "holdfast.lock.hold");
            assertThat(value(ENDED.get(0), "holdfast.lock")).isEqualTo("a");
            assertThat(Long.parseLong(value(ENDED.get(1), "holdfast.fence"))).isPositive();

            ENDED.clear();
            assertThat(work.later("b").get(20, TimeUnit.SECONDS)).isEqualTo("holdfast.lock.hold");
            assertThat(names()).containsExactly("holdfast.lock.wait", "holdfast.lock.hold");

            ENDED.clear();
            assertThatThrownBy(work::fails).isInstanceOf(IllegalStateException.class);
            assertThat(ENDED.get(1).getError()).hasMessage("work");

            ENDED.clear();
            assertThat(work.periodic()).contains("holdfast.lock.hold");
            assertThat(work.periodic()).isEmpty();
            assertThat(names()).containsExactly("holdfast.lock.hold");

            ENDED.clear();
            HoldfastClient client = context.getBean(HoldfastClient.class);
            try (Hold hold = client.lock("c").acquire()) {
                assertThatThrownBy(() -> work.locked("c")).isInstanceOf(LockBusyException.class);
            }
            assertThat(names()).containsExactly("holdfast.lock.wait");
            assertThat(ENDED.get(0).getError()).isNotNull();

            assertThat(Work.LEADS.await(20, TimeUnit.SECONDS)).isTrue();
        }
    }

    /** Of a user, and wrong. */
    private record Failing(String name, String at)
            implements ObservationHandler<Observation.Context> {
        private void at(String event, Observation.Context context) {
            if (at.equals(event) && context.getName().equals(name)) {
                throw new IllegalStateException("a handler");
            }
        }

        @Override
        public void onStart(Observation.Context context) {
            at("start", context);
        }

        @Override
        public void onScopeOpened(Observation.Context context) {
            at("open", context);
        }

        @Override
        public void onScopeClosed(Observation.Context context) {
            at("close", context);
        }

        @Override
        public void onStop(Observation.Context context) {
            at("stop", context);
        }

        @Override
        public boolean supportsContext(Observation.Context context) {
            return true;
        }
    }

    @Test
    void aHandlerThatThrowsLeavesNoAcquireUnderWay() throws Exception {
        ObservationRegistry registry = ObservationRegistry.create();
        registry.observationConfig().observationHandler(new Failing("holdfast.lock.wait", "close"));
        HoldfastObservations observations = new HoldfastObservations(registry);
        HoldfastClient client = new InMemoryHoldfast().connect();
        HoldfastLock lock = client.lock("later");
        for (boolean free : new boolean[] {true, false}) {
            Hold before = free ? null : lock.acquire();
            assertThatThrownBy(() -> observations.acquireAsync(lock, Duration.ofMinutes(1)))
                    .hasMessage("a handler");
            until(() -> lock.inspect().waiters() == 0); // soon, not at once
            if (before != null) {
                before.close();
            }
            until(() -> !lock.isLocked());
        }
    }

    @Test
    void aHandlerThatThrowsLeavesNoLockBehind() {
        HoldfastClient client = new InMemoryHoldfast().connect();
        for (String name : List.of("holdfast.lock.wait", "holdfast.lock.hold")) {
            for (String at : List.of("start", "open", "close", "stop")) {
                ObservationRegistry registry = ObservationRegistry.create();
                registry.observationConfig().observationHandler(new Failing(name, at));
                HoldfastObservations observations = new HoldfastObservations(registry);
                assertThatThrownBy(
                                () -> observations.hold(client.lock(name), Duration.ZERO, hold -> 1))
                        .hasMessage("a handler");
                assertThat(client.lock(name).isLocked()).as(name + " " + at).isFalse();
            }
        }
    }
}
