package io.holdfast.spring;

import io.holdfast.Codec;
import java.lang.reflect.Type;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;
import tools.jackson.databind.JavaType;
import tools.jackson.databind.ObjectReader;
import tools.jackson.databind.ObjectWriter;
import tools.jackson.databind.json.JsonMapper;

/** {@link JsonCodecs} with Jackson 3, if the application has a {@code JsonMapper}. */
@AutoConfiguration(
        afterName = "org.springframework.boot.jackson.autoconfigure.JacksonAutoConfiguration")
@ConditionalOnClass(JsonMapper.class)
@ConditionalOnSingleCandidate(JsonMapper.class)
public class HoldfastJackson3AutoConfiguration {
    /** For Spring. */
    HoldfastJackson3AutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean
    JsonCodecs holdfastJsonCodecs(JsonMapper json) {
        return new Jackson(json);
    }

    private record Jackson(JsonMapper json) implements JsonCodecs {
        @Override
        public <T> Codec<T> of(Type type) {
            JavaType java = json.constructType(type);
            ObjectWriter writer = json.writerFor(java);
            ObjectReader reader = json.readerFor(java);
            return Codec.of(writer::writeValueAsBytes, bytes -> reader.readValue(bytes));
        }
    }
}
