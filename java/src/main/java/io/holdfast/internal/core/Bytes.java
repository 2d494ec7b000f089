package io.holdfast.internal.core;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Converts names and owners, which are bytes, from and to text in UTF-8. */
public final class Bytes {
    private Bytes() {}

    /** Encodes text; refuses an unpaired surrogate: as a '?' it would make two names the same. */
    public static byte[] of(String text) {
        try {
            ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            return bytes;
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("the text cannot be encoded in UTF-8", e);
        }
    }

    /** Shows any name as text; only a name that contains {@code \\xff} literally can look like another. */
    public static String shown(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        CharBuffer room = CharBuffer.allocate(bytes.length);
        ByteBuffer left = ByteBuffer.wrap(bytes);
        for (;;) {
            boolean bad =
                    StandardCharsets.UTF_8.newDecoder().decode(left, room, true).isMalformed();
            text.append(room.flip());
            room.clear();
            if (!bad) {
                return text.toString();
            }
            text.append(String.format("\\x%02x", left.get()));
        }
    }

    /** Decodes text; refuses bytes that are not UTF-8. */
    public static String checkedText(byte[] bytes) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException e) {
            throw new IllegalArgumentException("the bytes are no text in UTF-8", e);
        }
    }

    /** Decodes text for people to read, also if it is not UTF-8. */
    public static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
