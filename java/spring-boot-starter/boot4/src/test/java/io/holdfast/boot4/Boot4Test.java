package io.holdfast.boot4;

import static org.assertj.core.api.Assertions.assertThat;

import io.holdfast.Codec;
import io.holdfast.HoldfastClient;
import io.holdfast.spring.CurrentHold;
import io.holdfast.spring.HoldfastLeaders;
import io.holdfast.spring.Idempotent;
import io.holdfast.spring.JsonCodecs;
import io.holdfast.spring.Leading;
import io.holdfast.spring.Locked;
import io.holdfast.testing.TestRedis;
import io.micrometer.core.instrument.MeterRegistry;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.health.actuate.endpoint.HealthEndpoint;
import org.springframework.boot.health.contributor.Status;
import org.springframework.context.annotation.Bean;
import org.springframework.core.ParameterizedTypeReference;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RestController;

/** What the starter brings to an application of Spring Boot 3, in one of Spring Boot 4. */
class Boot4Test {
    @EnableAutoConfiguration
    static class Application {
        @Bean
        Work work() {
            return new Work();
        }

        @Bean
        Charges charges() {
            return new Charges();
        }
    }

    @RestController
    static class Charges {
        @PostMapping("/charge")
        @Idempotent("charge")
        Receipt charge() {
            return new Receipt(new BigDecimal("12.50"), Instant.now());
        }
    }

    static class Work {
        static final CountDownLatch LEADS = new CountDownLatch(1);

        @Locked("stock")
        public long fence() {
            return CurrentHold.get().fence();
        }

        @Leading("matcher")
        void match(long fence) throws InterruptedException {
            LEADS.countDown();
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    record Receipt(BigDecimal amount, Instant paid) {}

    @Test
    void healthMetersLocksAndLeadersWork() throws Exception {
        try (TestRedis redis = TestRedis.start()) {
            String lazy = "--holdfast.connect-timeout=500ms";
            String url = "--holdfast.url=" + redis.url();
            try (var application = SpringApplication.run(Application.class, url, lazy, "--server.port=0")) {
                Work work = application.getBean(Work.class);
                assertThat(work.fence()).isPositive();
                assertThat(Work.LEADS.await(20, TimeUnit.SECONDS)).isTrue();
                assertThat(application.getBean(HoldfastLeaders.class).leader("matcher").isLeader())
                        .isTrue();
                HealthEndpoint health = application.getBean(HealthEndpoint.class);
                assertThat(health.healthForPath("holdfast").getStatus()).isEqualTo(Status.UP);
                MeterRegistry meters = application.getBean(MeterRegistry.class);
                assertThat(meters.get("holdfast.acquired").functionCounters()).isNotEmpty();
                assertThat(meters.get("holdfast.lock.wait").timer().count()).isPositive();
                assertThat(meters.get("holdfast.lock.hold").timer().count()).isPositive();
                String port = application.getEnvironment().getProperty("local.server.port");
                HttpRequest.Builder charge =
                        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/charge"))
                                .POST(HttpRequest.BodyPublishers.noBody());
                HttpClient http = HttpClient.newHttpClient();
                var missing = http.send(charge.build(), HttpResponse.BodyHandlers.ofString());
                assertThat(missing.statusCode()).isEqualTo(400);
                assertThat(missing.headers().firstValue("Content-Type"))
                        .contains("application/problem+json");
                charge.header("Idempotency-Key", "7");
                var first = http.send(charge.build(), HttpResponse.BodyHandlers.ofString());
                var again = http.send(charge.build(), HttpResponse.BodyHandlers.ofString());
                assertThat(first.statusCode()).isEqualTo(200);
                assertThat(again.headers().firstValue("Idempotent-Replayed")).contains("true");
                assertThat(again.body()).isEqualTo(first.body());
                Codec<List<Receipt>> receipts =
                        application
                                .getBean(JsonCodecs.class)
                                .of(new ParameterizedTypeReference<List<Receipt>>() {});
                Receipt receipt = new Receipt(new BigDecimal("12.50"), Instant.EPOCH);
                byte[] json = receipts.encode(List.of(receipt));
                assertThat(new String(json, StandardCharsets.UTF_8))
                        .isEqualTo("[{\"amount\":12.50,\"paid\":\"1970-01-01T00:00:00Z\"}]");
                assertThat(receipts.decode(json)).isEqualTo(List.of(receipt));
                assertThat(application.getBean(HoldfastClient.class).lock("stock").isLocked())
                        .isFalse();
                redis.close();
                assertThat(health.healthForPath("holdfast").getStatus()).isEqualTo(Status.DOWN);
            }
        }
    }
}
