package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.util.Objects;
import java.util.function.Function;

/**
 * Converts results to bytes and back, for {@link HoldfastLock#once once()}. All processes
 * that share a result need the same codec, in whatever language: Python's default is JSON in UTF-8.
 *
 * <p>Do not decode with Java's serialization: every program that may write to the server could then
 * run code here.
 *
 * @param <T> the type of the results
 */
public interface Codec<T> {
    /** Bytes as they are. */
    Codec<byte[]> BYTES = of(bytes -> bytes, bytes -> bytes);

    /**
     * Text in UTF-8. It refuses text that UTF-8 cannot carry, and bytes that are not UTF-8, with an
     * {@link IllegalArgumentException}.
     */
    Codec<String> UTF_8 =
            of(text -> Bytes.of(Objects.requireNonNull(text, "the result is null")), Bytes::checkedText);

    /**
     * Encodes a result.
     *
     * @param result the result of the call
     * @return at most 16 MiB
     * @throws Exception if it cannot be encoded; it becomes the cause of the {@link
     *     ResultNotKeptException} that the caller of {@code once()} gets
     */
    byte[] encode(T result) throws Exception;

    /**
     * Decodes a result.
     *
     * @param bytes made by {@link #encode}, here or elsewhere
     * @return the result
     * @throws Exception if they encode no result; the caller of {@code once()} gets the exception,
     *     or a {@link ResultNotKeptException} with this cause if that caller made the result
     */
    T decode(byte[] bytes) throws Exception;

    /**
     * Makes a codec from two functions, such as {@code Codec.of(json::writeValueAsBytes, ...)} around a JSON
     * library.
     *
     * @param <T> the type of the results
     * @param encode encodes a result
     * @param decode decodes a result
     * @return the codec
     */
    static <T> Codec<T> of(
            Function<? super T, byte[]> encode, Function<byte[], ? extends T> decode) {
        Objects.requireNonNull(encode, "encode");
        Objects.requireNonNull(decode, "decode");
        return new Codec<>() {
            @Override
            public byte[] encode(T result) {
                return encode.apply(result);
            }

            @Override
            public T decode(byte[] bytes) {
                return decode.apply(bytes);
            }
        };
    }
}
