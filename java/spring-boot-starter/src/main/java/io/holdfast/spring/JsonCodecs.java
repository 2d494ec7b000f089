package io.holdfast.spring;

import io.holdfast.Codec;
import java.lang.reflect.Type;
import org.springframework.core.ParameterizedTypeReference;

/**
 * Codecs that keep results as JSON, with the application's Jackson: for {@link
 * io.holdfast.HoldfastClient#once once()}. A bean where Jackson is, 2 or 3.
 *
 * <pre>{@code
 * Codec<Receipt> receipts = json.of(Receipt.class);
 * Receipt receipt = client.once("charge:7", OnceOptions.of(Duration.ofDays(1), receipts), () -> vendor.charge(order));
 * }</pre>
 *
 * <p>Python's default codec reads the same JSON. The type decides what is decoded, and never the
 * bytes, unless you turn Jackson's default typing on: do not, because every program that may write
 * to the server could then run code here. Any thread may use it and its codecs.
 */
public interface JsonCodecs {
    /**
     * A codec for results of this class.
     *
     * @param <T> what the results are
     * @param type their class
     * @return the codec. It throws Jackson's exceptions
     */
    default <T> Codec<T> of(Class<T> type) {
        return of((Type) type);
    }

    /**
     * A codec for results of a type with parameters.
     *
     * <pre>{@code
     * json.of(new ParameterizedTypeReference<List<Receipt>>() {});
     * }</pre>
     *
     * @param <T> what the results are
     * @param type their type
     * @return the codec. It throws Jackson's exceptions
     */
    default <T> Codec<T> of(ParameterizedTypeReference<T> type) {
        return of(type.getType());
    }

    /**
     * A codec for results of a type that is known only when the program runs.
     *
     * @param <T> what the results are; it is not checked that they are {@code type}
     * @param type their type
     * @return the codec. It throws Jackson's exceptions
     */
    <T> Codec<T> of(Type type);
}
