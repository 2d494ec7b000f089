package io.holdfast.spring;

import javax.sql.DataSource;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import org.springframework.jdbc.core.JdbcTemplate;

/** {@link Fences}, if Spring's JDBC and exactly one database are present. */
@AutoConfiguration(
        afterName = {
            "org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration",
            "org.springframework.boot.jdbc.autoconfigure.DataSourceAutoConfiguration" // Boot 4
        })
@ConditionalOnClass(JdbcTemplate.class)
@ConditionalOnSingleCandidate(DataSource.class)
public class HoldfastJdbcAutoConfiguration {
    /** For Spring. */
    HoldfastJdbcAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean
    Fences holdfastFences(DataSource database) {
        return new Fences(database);
    }
}
