package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import java.util.Map;
import org.springframework.boot.actuate.autoconfigure.health.CompositeHealthContributorConfiguration;
import org.springframework.boot.actuate.autoconfigure.health.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.actuate.health.HealthContributor;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.context.annotation.Bean;

/** The health indicator {@code holdfast}, for the Actuator of Spring Boot 3. */
@AutoConfiguration(after = HoldfastAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(HoldfastClient.class)
@ConditionalOnEnabledHealthIndicator("holdfast")
public class HoldfastHealthAutoConfiguration
        extends CompositeHealthContributorConfiguration<HoldfastHealthIndicator, HoldfastClient> {
    /** For Spring. */
    HoldfastHealthAutoConfiguration() {
        super(HoldfastHealthIndicator::new);
    }

    @Bean
    @ConditionalOnMissingBean(name = {"holdfastHealthIndicator", "holdfastHealthContributor"})
    HealthContributor holdfastHealthContributor(Map<String, HoldfastClient> clients) {
        return createContributor(clients);
    }
}
