package io.holdfast.spring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.testing.TestRedis;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.scheduling.annotation.Async;
import reactor.core.publisher.Mono;

/** The work of a leader. */
final class LeadingTest {
    private static final BlockingQueue<String> TOLD = new LinkedBlockingQueue<>();

    static class Work {
        @Leading("${role}:matcher")
        void match(long fence) throws InterruptedException {
            TOLD.add("leads");
            try {
                Thread.sleep(Long.MAX_VALUE);
            } finally {
                TOLD.add("ends");
            }
        }
    }

    @EnableAutoConfiguration
    static class Application {
        @Bean
        Work work() {
            return new Work();
        }
    }

    static class Wrong {
        @Leading("x")
        void match(String fence) {}
    }

    @EnableAutoConfiguration
    static class WrongApplication {
        @Bean
        Wrong wrong() {
            return new Wrong();
        }
    }

    static class Soon {
        @Leading(value = "x", lease = "soon")
        void match() {}
    }

    static class Brief {
        @Leading(value = "x", lease = "1ms")
        void match() {}
    }

    static class Never {
        @Leading("x")
        Mono<Void> match() {
            return Mono.empty();
        }
    }

    static class Elsewhere {
        @Async
        @Leading("x")
        void match() {}
    }

    @Leading("x")
    @Retention(RetentionPolicy.RUNTIME)
    @interface One {}

    @Leading("y")
    @Retention(RetentionPolicy.RUNTIME)
    @interface Other {}

    static class Twice {
        @One
        @Other
        void match() {}
    }

    static class Deaf {
        static final CountDownLatch ENOUGH = new CountDownLatch(1);

        @Leading("deaf")
        void match() {
            TOLD.add("leads");
            while (ENOUGH.getCount() > 0) {
                try {
                    ENOUGH.await();
                } catch (InterruptedException e) {
                    continue;
                }
            }
            TOLD.add("ends");
        }
    }

    @EnableAutoConfiguration
    static class DeafApplication {
        @Bean
        Deaf deaf() {
            return new Deaf();
        }
    }

    static class Fatal {
        static final CompletableFuture<ConfigurableApplicationContext> APPLICATION =
                new CompletableFuture<>();

        @Leading("fatal")
        void match() {
            APPLICATION.join().close();
            TOLD.add("ended");
        }
    }

    @EnableAutoConfiguration
    static class FatalApplication {
        @Bean
        Fatal fatal() {
            return new Fatal();
        }
    }

    private static String told() throws InterruptedException {
        return TOLD.poll(20, TimeUnit.SECONDS);
    }

    @Test
    void oneApplicationLeadsAndTheNextFollowsItsEnd() throws Exception {
        try (TestRedis redis = TestRedis.start();
                HoldfastClient client = Holdfast.connect(redis.url())) {
            String[] arguments = {"--holdfast.url=" + redis.url(), "--role=shop"};
            var first = SpringApplication.run(Application.class, arguments);
            assertThat(told()).isEqualTo("leads");
            HoldfastLeaders leaders = first.getBean(HoldfastLeaders.class);
            assertThat(leaders.leader("shop:matcher").fence()).isPresent();
            assertThatThrownBy(() -> leaders.leader("matcher"))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessageContaining("[shop:matcher]");
            try (var second = SpringApplication.run(Application.class, arguments)) {
                assertThat(second.getBean(HoldfastLeaders.class).leader("shop:matcher").isLeader())
                        .isFalse();
                first.close();
                assertThat(told()).isEqualTo("ends");
                assertThat(told()).isEqualTo("leads");
            }
            assertThat(told()).isEqualTo("ends");
            assertThat(client.lock("shop:matcher").isLocked()).isFalse();
        }
    }

    @Test
    void aMethodThatDoesNotEndKeepsNoApplicationFromItsEnd() throws Exception {
        try (TestRedis redis = TestRedis.start();
                HoldfastClient client = Holdfast.connect(redis.url())) {
            var application =
                    SpringApplication.run(
                            DeafApplication.class,
                            "--holdfast.url=" + redis.url(),
                            "--spring.lifecycle.timeout-per-shutdown-phase=1s");
            assertThat(told()).isEqualTo("leads");
            CompletableFuture.runAsync(application::close).get(20, TimeUnit.SECONDS);
            assertThat(client.lock("deaf").isLocked()).isFalse();
            Deaf.ENOUGH.countDown();
            assertThat(told()).isEqualTo("ends");
        }
    }

    @Test
    void aMethodMayEndItsApplication() throws Exception {
        try (TestRedis redis = TestRedis.start()) {
            String[] arguments = {"--holdfast.url=" + redis.url()};
            try (var application = SpringApplication.run(FatalApplication.class, arguments)) {
                Fatal.APPLICATION.complete(application);
                assertThat(told()).isEqualTo("ended");
            }
        }
    }

    @Test
    void aMethodThatCannotLeadIsRefused() {
        try (TestRedis redis = TestRedis.start()) {
            assertThatThrownBy(
                            () ->
                                    SpringApplication.run(
                                            WrongApplication.class,
                                            "--holdfast.url=" + redis.url()))
                    .hasMessageContaining("it takes the fence, a long, or nothing");
        }
    }

    @Test
    void anApplicationThatIsStoppedAndStartedStandsAgain() throws Exception {
        try (TestRedis redis = TestRedis.start()) {
            try (var application =
                    SpringApplication.run(
                            Application.class,
                            "--holdfast.url=" + redis.url(),
                            "--role=shop",
                            "--spring.main.web-application-type=none")) {
                HoldfastLeaders leaders = application.getBean(HoldfastLeaders.class);
                for (int i = 0; i < 2; i++) {
                    assertThat(told()).isEqualTo("leads");
                    assertThat(leaders.leader("shop:matcher").isLeader()).isTrue();
                    application.stop();
                    assertThat(told()).isEqualTo("ends");
                    assertThat(leaders.leader("shop:matcher").isLeader()).isFalse();
                    application.start();
                }
                assertThat(told()).isEqualTo("leads");
            }
            assertThat(told()).isEqualTo("ends");
        }
    }

    @Test
    void workThatWouldOutlastItsMethodIsRefused() {
        for (Class<?> wrong : List.of(Never.class, Elsewhere.class)) {
            String said = io.holdfast.spring.Application.refusal(wrong);
            assertThat(said).contains("@Leading", wrong.getSimpleName() + ".match()", "ended");
        }
    }

    @Test
    void twoAnnotationsAreRefused() {
        assertThat(io.holdfast.spring.Application.refusal(Twice.class)).contains("@Leading twice");
    }

    @Test
    void aWrongLeaseIsToldWithItsMethod() {
        for (Class<?> wrong : List.of(Soon.class, Brief.class)) {
            String said = io.holdfast.spring.Application.refusal(wrong);
            assertThat(said).contains("@Leading", wrong.getSimpleName() + ".match()", "lease");
        }
    }
}
