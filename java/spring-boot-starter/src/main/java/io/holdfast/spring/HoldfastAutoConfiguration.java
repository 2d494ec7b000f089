package io.holdfast.spring;

import io.holdfast.ClientOptions;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Role;
import org.springframework.core.env.Environment;

/**
 * A client from the properties {@code holdfast.*}, unless the application has its own, and the advice
 * of {@link Locked} and {@link OncePer}. The application closes the client after the beans that use it.
 */
@AutoConfiguration
@EnableConfigurationProperties(HoldfastProperties.class)
public class HoldfastAutoConfiguration {
    /** For Spring. */
    HoldfastAutoConfiguration() {}

    @Bean(destroyMethod = "close")
    @ConditionalOnMissingBean
    HoldfastClient holdfastClient(
            HoldfastProperties properties, ObjectProvider<ClientOptionsCustomizer> customizers) {
        ClientOptions options = properties.options();
        for (ClientOptionsCustomizer each : customizers.orderedStream().toList()) {
            options = each.customize(options);
        }
        String url = properties.url();
        if (url == null || url.isBlank()) {
            throw new HoldfastUrlException("it is not set", null);
        }
        try {
            return Holdfast.connect(url, options);
        } catch (IllegalArgumentException e) {
            throw new HoldfastUrlException(e.getMessage(), e);
        }
    }

    @Bean
    @ConditionalOnMissingBean
    static HoldfastLeaders holdfastLeaders(ConfigurableListableBeanFactory beans) {
        return new HoldfastLeaders(beans);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    @ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.REACTIVE)
    static IdempotentNowhere holdfastIdempotentNowhere() {
        return new IdempotentNowhere();
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LockedBeans holdfastLockedBeans(Environment environment) {
        return new LockedBeans(
                environment.getProperty("spring.aop.proxy-target-class", Boolean.class, true));
    }
}
