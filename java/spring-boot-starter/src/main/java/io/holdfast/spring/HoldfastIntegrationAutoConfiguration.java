package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.integration.support.locks.LockRegistry;

/** The lock registry, if Spring Integration is present and has no other. */
@AutoConfiguration(after = HoldfastAutoConfiguration.class)
@ConditionalOnClass(LockRegistry.class)
@ConditionalOnSingleCandidate(HoldfastClient.class)
public class HoldfastIntegrationAutoConfiguration {
    /** For Spring. */
    HoldfastIntegrationAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean(LockRegistry.class)
    HoldfastLockRegistry holdfastLockRegistry(HoldfastClient client, HoldfastProperties properties) {
        return new HoldfastLockRegistry(
                client, properties.lock().options(), properties.lockRegistry().prefix());
    }
}
