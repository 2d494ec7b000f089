package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonMappingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.holdfast.Codec;
import io.holdfast.OnceOptions;
import io.holdfast.ResultNotKeptException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.annotation.Bean;
import org.springframework.core.ParameterizedTypeReference;

/** Results that are kept as JSON. */
final class JsonCodecsTest {
    record Receipt(String id, BigDecimal amount, Instant paid) {}

    private static final Receipt SEVEN =
            new Receipt("sieben \u20ac", new BigDecimal("12.50"), Instant.ofEpochSecond(7));
    private static final String JSON =
            "{\"id\":\"sieben \u20ac\",\"amount\":12.50,\"paid\":\"1970-01-01T00:00:07Z\"}";

    /** A bean whose getter fails: Jackson cannot encode it. */
    public static final class Wrong {
        public String getText() {
            throw new IllegalStateException("no text");
        }
    }

    @Test
    void resultsAreKeptAsTheApplicationsJson() throws Exception {
        try (var application = start(Map.of())) {
            JsonCodecs json = application.getBean(JsonCodecs.class);
            String name = unique();
            OnceOptions<Receipt> options =
                    OnceOptions.of(Duration.ofMinutes(1), json.of(Receipt.class)).atMostOnce(true);
            assertThat(client(application).once(name, options, () -> SEVEN)).isEqualTo(SEVEN);
            assertThat(
                            client(application)
                                    .once(
                                            name,
                                            options,
                                            () -> {
                                                throw new AssertionError("called twice");
                                            }))
                    .isEqualTo(SEVEN);
            byte[] kept = client(application).onceResult(name).orElseThrow().result().orElseThrow();
            assertThat(new String(kept, StandardCharsets.UTF_8)).isEqualTo(JSON);

            Codec<List<Receipt>> lists = json.of(new ParameterizedTypeReference<>() {});
            assertThat(lists.decode(lists.encode(List.of(SEVEN)))).isEqualTo(List.of(SEVEN));
        }
    }

    @Test
    void aResultWithoutJsonIsNotLost() {
        try (var application = start(Map.of())) {
            JsonCodecs json = application.getBean(JsonCodecs.class);
            Wrong wrong = new Wrong();
            OnceOptions<Wrong> options =
                    OnceOptions.of(Duration.ofMinutes(1), json.of(Wrong.class)).atMostOnce(true);
            assertThatThrownBy(() -> client(application).once(unique(), options, () -> wrong))
                    .isInstanceOfSatisfying(
                            ResultNotKeptException.class,
                            e -> assertThat(e.<Wrong>result()).isSameAs(wrong))
                    .hasCauseInstanceOf(JsonMappingException.class);
            Codec<Receipt> receipts = json.of(Receipt.class);
            assertThatThrownBy(() -> receipts.decode(new byte[] {'['}))
                    .isInstanceOf(com.fasterxml.jackson.core.JacksonException.class);
        }
    }

    static class Own {
        @Bean
        ObjectMapper mapper() {
            return new ObjectMapper();
        }
    }

    @Test
    void thereIsNoneWithoutTheApplicationsMapper() {
        var runner =
                new ApplicationContextRunner()
                        .withConfiguration(
                                AutoConfigurations.of(HoldfastJacksonAutoConfiguration.class));
        runner.run(application -> assertThat(application).doesNotHaveBean(JsonCodecs.class));
        runner.withUserConfiguration(Own.class)
                .run(application -> assertThat(application).hasSingleBean(JsonCodecs.class));
    }
}
