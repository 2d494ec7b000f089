package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.util.Objects;
import java.util.function.Function;

/**
 * Makes bytes of results, and results of bytes, for {@link HoldfastLock#once once()}. All processes
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
     * Text in UTF-8. It refuses text that UTF-8 cannot carry, and bytes that are no UTF-8, with an
     * {@link IllegalArgumentException}.
     */
    Codec<String> UTF_8 =
            of(text -> Bytes.of(Objects.requireNonNull(text, "the result is null")), Bytes::checkedText);

    /**
     * The bytes of a result.
     *
     * @param result the result of the call
     * @return at most 16 MiB
     * @throws Exception if it has no bytes; the caller of {@code once()} gets the exception
     */
    byte[] encode(T result) throws Exception;

    /**
     * The result of its bytes.
     *
     * @param bytes what {@link #encode} made, here or elsewhere
     * @return the result
     * @throws Exception if these are no result; the caller of {@code once()} gets the exception
     */
    T decode(byte[] bytes) throws Exception;

    /**
     * A codec of two functions, such as {@code Codec.of(json::writeValueAsBytes, ...)} around a JSON
     * library.
     *
     * @param <T> the type of the results
     * @param encode makes the bytes of a result
     * @param decode makes the result of its bytes
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
