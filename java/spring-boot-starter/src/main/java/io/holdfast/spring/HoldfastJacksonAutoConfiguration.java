package io.holdfast.spring;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import io.holdfast.Codec;
import java.io.IOException;
import java.lang.reflect.Type;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnSingleCandidate;
import org.springframework.context.annotation.Bean;

/** {@link JsonCodecs} with Jackson 2, if the application has an {@code ObjectMapper}. */
@AutoConfiguration(
        after = HoldfastJackson3AutoConfiguration.class,
        afterName = {
            "org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration",
            "org.springframework.boot.jackson2.autoconfigure.Jackson2AutoConfiguration" // Boot 4
        })
@ConditionalOnClass(ObjectMapper.class)
@ConditionalOnSingleCandidate(ObjectMapper.class)
public class HoldfastJacksonAutoConfiguration {
    /** For Spring. */
    HoldfastJacksonAutoConfiguration() {}

    @Bean
    @ConditionalOnMissingBean
    JsonCodecs holdfastJsonCodecs(ObjectMapper json) {
        return new Jackson(json);
    }

    private record Jackson(ObjectMapper json) implements JsonCodecs {
        @Override
        public <T> Codec<T> of(Type type) {
            JavaType java = json.constructType(type);
            ObjectWriter writer = json.writerFor(java);
            ObjectReader reader = json.readerFor(java);
            return new Codec<>() {
                @Override
                public byte[] encode(T result) throws JsonProcessingException {
                    return writer.writeValueAsBytes(result);
                }

                @Override
                public T decode(byte[] bytes) throws IOException {
                    return reader.readValue(bytes);
                }
            };
        }
    }
}
