package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.micrometer.HoldfastMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.Map;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** The meters {@code holdfast.*} of each client, with its bean's name in the tag {@code client}. */
@AutoConfiguration(
        after = HoldfastAutoConfiguration.class,
        afterName = {
            "org.springframework.boot.actuate.autoconfigure.metrics.MetricsAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
            "org.springframework.boot.micrometer.metrics.autoconfigure.MetricsAutoConfiguration",
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
        })
@ConditionalOnClass(MeterRegistry.class)
@ConditionalOnBean({MeterRegistry.class, HoldfastClient.class})
public class HoldfastMetricsAutoConfiguration {
    /** For Spring. */
    HoldfastMetricsAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean(name = "holdfastMeters")
    MeterBinder holdfastMeters(Map<String, HoldfastClient> clients) {
        return registry ->
                clients.forEach(
                        (name, client) ->
                                new HoldfastMetrics(client, Tag.of("client", name)).bindTo(registry));
    }
}
