package io.holdfast.spring;

import static io.holdfast.spring.Application.said;
import static io.holdfast.spring.Application.unique;
import static java.util.stream.Collectors.joining;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.holdfast.ClosedException;
import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.testing.InMemoryHoldfast;
import io.holdfast.testing.TestRedis;
import io.micrometer.core.instrument.MeterRegistry;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.autoconfigure.health.HealthContributorAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.health.HealthEndpointAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.MetricsAutoConfiguration;
import org.springframework.boot.actuate.autoconfigure.metrics.export.simple.SimpleMetricsExportAutoConfiguration;
import org.springframework.boot.actuate.health.HealthContributorRegistry;
import org.springframework.boot.actuate.health.HealthEndpoint;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.DefaultLockRegistry;
import org.springframework.integration.support.locks.LockRegistry;

/** What the starter gives to an application, and when it does not. */
final class AutoConfigurationTest {
    private final ApplicationContextRunner empty =
            new ApplicationContextRunner()
                    .withConfiguration(
                            AutoConfigurations.of(
                                    HoldfastAutoConfiguration.class,
                                    HoldfastHealthAutoConfiguration.class,
                                    HoldfastIntegrationAutoConfiguration.class,
                                    HoldfastMetricsAutoConfiguration.class,
                                    HealthContributorAutoConfiguration.class,
                                    HealthEndpointAutoConfiguration.class,
                                    MetricsAutoConfiguration.class,
                                    SimpleMetricsExportAutoConfiguration.class));
    private final ApplicationContextRunner runner =
            empty.withPropertyValues("holdfast.url=" + Application.url());

    static class Own {
        @Bean
        HoldfastClient own() {
            return new InMemoryHoldfast().connect();
        }
    }

    @Test
    void theClientIsClosedWithTheApplication() {
        AtomicReference<HoldfastClient> client = new AtomicReference<>();
        runner.run(
                application -> {
                    client.set(application.getBean(HoldfastClient.class));
                    client.get().ping();
                });
        assertThatThrownBy(() -> client.get().ping()).isInstanceOf(ClosedException.class);
    }

    @Test
    void theApplicationsOwnClientIsTaken() {
        empty.withUserConfiguration(Own.class, LockedTest.More.class)
                .run(
                        application -> {
                            assertThat(application).hasSingleBean(HoldfastClient.class);
                            assertThat(application.getBean(LockedTest.More.class).nested("x"))
                                    .isPositive();
                        });
    }

    @Test
    void severalMastersTakeAnotherUrl() {
        try (TestRedis one = TestRedis.start();
                TestRedis two = TestRedis.start();
                TestRedis three = TestRedis.start()) {
            String url =
                    Stream.of(one, two, three)
                            .map(master -> master.url().replace("redis://", ""))
                            .collect(joining(",", "redis+quorum://", "?quarantine=0"));
            empty.withPropertyValues("holdfast.url=" + url)
                    .withUserConfiguration(LockedTest.More.class)
                    .run(
                            application -> {
                                assertThat(application.getBean(LockedTest.More.class).nested("x"))
                                        .isPositive();
                                HoldfastClient client = application.getBean(HoldfastClient.class);
                                try (Hold hold = client.lock("x").acquire()) {
                                    assertThat(hold.masters()).isEqualTo(3);
                                }
                            });
        }
    }

    static class Customizers {
        static final AtomicBoolean ASKED = new AtomicBoolean();

        @Bean
        ClientOptionsCustomizer name() {
            return options -> {
                ASKED.set(true);
                return options.clientName("customized");
            };
        }
    }

    @Test
    void propertiesAndCustomizersReachTheClient() {
        var properties =
                runner.withPropertyValues(
                        "holdfast.client-name=shop",
                        "holdfast.connect-timeout=1s",
                        "holdfast.command-timeout=PT1S",
                        "holdfast.keep-alive=0",
                        "holdfast.fence-life=1h",
                        "holdfast.count-names=true",
                        "holdfast.names-max=10",
                        "holdfast.alarm.timeouts=3",
                        "holdfast.alarm.window=10s");
        properties.run(
                application ->
                        assertThat(nameOf(application.getBean(HoldfastClient.class)))
                                .isEqualTo("shop"));
        properties
                .withUserConfiguration(Customizers.class)
                .run(
                        application -> {
                            assertThat(nameOf(application.getBean(HoldfastClient.class)))
                                    .isEqualTo("customized");
                            assertThat(Customizers.ASKED).isTrue();
                        });
    }

    private static String nameOf(HoldfastClient client) throws InterruptedException {
        String lock = unique();
        try (Hold hold = client.lock(lock).acquire()) {
            return client.lock(lock).inspect().holders().get(0).origin().orElseThrow().client();
        }
    }

    @Test
    void aMissingUrlIsExplained() {
        empty.run(
                application -> {
                    assertThat(application).hasFailed();
                    FailureAnalysis analysis =
                            new HoldfastUrlFailureAnalyzer().analyze(application.getStartupFailure());
                    assertThat(analysis.getDescription()).contains("holdfast.url: it is not set");
                    assertThat(analysis.getAction()).contains("redis://localhost:6379");
                });
    }

    @Test
    void aWrongUrlIsExplainedWithoutItsPassword() {
        for (String url :
                new String[] {
                    "redis://user:secret@host:notaport",
                    "secret://user:secret@host",
                    "redis://user:secret@host?secret=1",
                    "redis://:secret@",
                    ":secret@host"
                }) {
            empty.withPropertyValues("holdfast.url=" + url)
                    .run(
                            application -> {
                                assertThat(application).hasFailed();
                                Throwable failure = application.getStartupFailure();
                                FailureAnalysis analysis =
                                        new HoldfastUrlFailureAnalyzer().analyze(failure);
                                assertThat(analysis.getDescription()).contains("holdfast.url: ");
                                assertThat(said(failure) + analysis.getDescription())
                                        .doesNotContain(":secret@");
                            });
        }
    }

    @Test
    void noPasswordIsToldLaterEither() {
        String url;
        try (TestRedis gone = TestRedis.start()) {
            url = gone.url().replace("//", "//user:secret@");
        }
        empty.withPropertyValues("holdfast.url=" + url)
                .run(
                        application -> {
                            var health = application.getBean("holdfastHealthContributor");
                            assertThat(((HealthIndicator) health).health().toString())
                                    .contains("DOWN")
                                    .doesNotContain("secret");
                            assertThat(application.getBean(HoldfastProperties.class).toString())
                                    .doesNotContain("secret");
                        });
    }

    @Test
    void aWrongPropertyIsNamed() {
        for (String wrong :
                new String[] {
                    "holdfast.connect-timeout=0",
                    "holdfast.command-timeout=soon",
                    "holdfast.fence-life=10ms",
                    "holdfast.client-name=a b",
                    "holdfast.names-max=0",
                    "holdfast.alarm.timeouts=0",
                    "holdfast.lock.lease=0",
                    "holdfast.lock.timeout=-1s",
                    "holdfast.lock.replicas=-1"
                }) {
            runner.withUserConfiguration(LockedTest.More.class)
                    .withPropertyValues(wrong)
                    .run(
                            application -> {
                                assertThat(application).hasFailed();
                                assertThat(said(application.getStartupFailure()))
                                        .contains(wrong.substring(0, wrong.indexOf('=')));
                            });
        }
    }

    @Test
    void propertiesHaveDescriptionsForTheIde() throws IOException {
        String path = "/META-INF/spring-configuration-metadata.json";
        try (var stream = HoldfastProperties.class.getResourceAsStream(path)) {
            String metadata = new String(stream.readAllBytes(), StandardCharsets.UTF_8);
            for (String property :
                    new String[] {
                        "holdfast.url",
                        "holdfast.alarm.timeouts",
                        "holdfast.lock.max-hold",
                        "holdfast.lock-registry.prefix",
                        "management.health.holdfast.enabled"
                    }) {
                assertThat(metadata).contains("\"name\": \"" + property + "\"");
            }
            assertThat(metadata).contains("name of the connections in CLIENT LIST");
        }
    }

    // --------------------------------------------------------------- Actuator

    @Test
    void healthIsThatOfRedisAndLivenessIsNot() {
        TestRedis redis = TestRedis.start();
        Map<String, Object> properties =
                Map.of(
                        "holdfast.url", redis.url(),
                        "management.endpoint.health.probes.enabled", true);
        try (redis;
                var application = Application.start(properties)) {
            HealthEndpoint health = application.getBean(HealthEndpoint.class);
            assertThat(health.healthForPath("holdfast").getStatus()).isEqualTo(Status.UP);
            assertThat(health.health().getStatus()).isEqualTo(Status.UP);
            redis.close();
            assertThat(health.healthForPath("holdfast").getStatus()).isEqualTo(Status.DOWN);
            assertThat(health.health().getStatus()).isEqualTo(Status.DOWN);
            assertThat(health.healthForPath("liveness").getStatus()).isEqualTo(Status.UP);
        }
    }

    @Test
    void healthCanBeTurnedOff() {
        runner.withPropertyValues("management.health.holdfast.enabled=false")
                .run(
                        application ->
                                assertThat(
                                                application
                                                        .getBean(HealthContributorRegistry.class)
                                                        .getContributor("holdfast"))
                                        .isNull());
    }

    @Test
    void metersTellWhatTheLocksDo() {
        runner.withUserConfiguration(LockedTest.More.class)
                .run(
                        application -> {
                            MeterRegistry meters = application.getBean(MeterRegistry.class);
                            application.getBean(LockedTest.More.class).nested(unique());
                            Thread.sleep(50); // the figures are kept for 20 ms
                            assertThat(
                                            meters.get("holdfast.acquired")
                                                    .tag("client", "holdfastClient")
                                                    .functionCounter()
                                                    .count())
                                    .isEqualTo(1);
                        });
    }

    // ------------------------------------------------------------ Conditions

    @Test
    void withoutTheOthersThereIsOnlyTheClient() {
        // Without the Actuator too: examples/spring.
        new ApplicationContextRunner()
                .withConfiguration(
                        AutoConfigurations.of(
                                HoldfastAutoConfiguration.class,
                                HoldfastIntegrationAutoConfiguration.class,
                                HoldfastMetricsAutoConfiguration.class))
                .withPropertyValues("holdfast.url=" + Application.url())
                .withClassLoader(
                        new FilteredClassLoader("org.springframework.integration", "io.micrometer"))
                .run(
                        application -> {
                            assertThat(application).hasNotFailed();
                            assertThat(application).hasSingleBean(HoldfastClient.class);
                            assertThat(application.containsBean("holdfastLockRegistry")).isFalse();
                            assertThat(application.containsBean("holdfastMeters")).isFalse();
                        });
    }

    static class OwnRegistry {
        @Bean
        LockRegistry own() {
            return new DefaultLockRegistry();
        }
    }

    @Test
    void theApplicationsOwnLockRegistryIsTaken() {
        runner.run(application -> assertThat(application).hasSingleBean(HoldfastLockRegistry.class));
        runner.withUserConfiguration(OwnRegistry.class)
                .run(
                        application ->
                                assertThat(application)
                                        .hasSingleBean(DefaultLockRegistry.class)
                                        .doesNotHaveBean(HoldfastLockRegistry.class));
    }
}
