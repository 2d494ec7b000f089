package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import java.util.Map;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.health.autoconfigure.contributor.CompositeHealthContributorConfiguration;
import org.springframework.boot.health.autoconfigure.contributor.ConditionalOnEnabledHealthIndicator;
import org.springframework.boot.health.contributor.AbstractHealthIndicator;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthContributor;
import org.springframework.boot.health.contributor.HealthIndicator;
import org.springframework.context.annotation.Bean;

/** The health indicator {@code holdfast}, for the Actuator of Spring Boot 4. */
@AutoConfiguration(after = HoldfastAutoConfiguration.class)
@ConditionalOnClass({HealthIndicator.class, ConditionalOnEnabledHealthIndicator.class})
@ConditionalOnBean(HoldfastClient.class)
@ConditionalOnEnabledHealthIndicator("holdfast")
public class HoldfastHealth4AutoConfiguration
        extends CompositeHealthContributorConfiguration<
                HoldfastHealth4AutoConfiguration.Indicator, HoldfastClient> {
    /** For Spring. */
    HoldfastHealth4AutoConfiguration() {
        super(Indicator::new);
    }

    @Bean
    @ConditionalOnMissingBean(name = {"holdfastHealthIndicator", "holdfastHealthContributor"})
    HealthContributor holdfastHealthContributor(Map<String, HoldfastClient> clients) {
        return createContributor(clients);
    }

    /** The same as {@link HoldfastHealthIndicator}, which is for Spring Boot 3. */
    static final class Indicator extends AbstractHealthIndicator {
        private final HoldfastClient client;

        Indicator(HoldfastClient client) {
            super("Redis does not answer Holdfast");
            this.client = client;
        }

        @Override
        protected void doHealthCheck(Health.Builder health) {
            client.ping();
            health.up();
        }
    }
}
