package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import jakarta.servlet.Filter;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.context.annotation.Bean;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;

/** The beans that {@link Idempotent} needs, if Spring MVC is present. */
@AutoConfiguration(after = HoldfastAutoConfiguration.class)
@ConditionalOnClass({Filter.class, RequestMappingHandlerMapping.class})
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@ConditionalOnBean(HoldfastClient.class)
public class HoldfastWebAutoConfiguration {
    /** For Spring. */
    HoldfastWebAutoConfiguration() {}

    @Bean
    static IdempotentBeans holdfastIdempotentBeans() {
        return new IdempotentBeans();
    }

    @Bean
    static IdempotentFilter holdfastIdempotentFilter(
            ConfigurableListableBeanFactory beans, IdempotentBeans handlers) {
        return new IdempotentFilter(beans, handlers);
    }
}
