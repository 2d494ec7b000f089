package io.holdfast;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Names and owners are bytes; text becomes UTF-8. */
final class Bytes {
    private Bytes() {}

    /** Refuses half a surrogate pair: as a '?' it would make one name of two. */
    static byte[] of(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("the text cannot be encoded in UTF-8", e);
        }
    }

    /** For people to read. */
    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
