package io.holdfast.spring;

import io.holdfast.Codec;
import java.lang.reflect.Type;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Codecs that keep results as JSON, with the application's Jackson: for {@link
 * io.holdfast.HoldfastClient#once once()}. It is a bean if Jackson 2 or 3 is present.
 *
 * <pre>{@code
 * Codec<Receipt> receipts = json.of(Receipt.class);
 * Receipt receipt = client.once("charge:7", OnceOptions.of(Duration.ofDays(1), receipts), () -> vendor.charge(order));
 * }</pre>
 *
 * <p>Python's default codec reads the same JSON. The type alone decides what is decoded, and never the
 * bytes, unless you turn Jackson's default typing on. Do not: every program that may write
 * to the server could then run code here. Any thread may use it and its codecs.
 */
public interface JsonCodecs {
    /**
     * Returns a codec for results of this class.
     *
     * @param <T> the type of the results
     * @param type their class
     * @return the codec, which throws Jackson's exceptions
     */
    default <T> Codec<T> of(Class<T> type) {
        return of((Type) type);
    }

    /**
     * Returns a codec for results of a type with parameters.
     *
     * <pre>{@code
     * json.of(new ParameterizedTypeReference<List<Receipt>>() {});
     * }</pre>
     *
     * @param <T> the type of the results
     * @param type their type
     * @return the codec, which throws Jackson's exceptions
     */
    default <T> Codec<T> of(ParameterizedTypeReference<T> type) {
        return of(type.getType());
    }

    /**
     * Returns a codec for results of a type that is known only at run time.
     *
     * @param <T> the type of the results, which is not checked against {@code type}
     * @param type their type
     * @return the codec, which throws Jackson's exceptions
     */
    <T> Codec<T> of(Type type);
}
