package io.holdfast;

import io.holdfast.internal.core.Bytes;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** The call was made and failed, with an error that is kept for all its callers. */
public final class KeptErrorException extends HoldfastException {
    private static final long serialVersionUID = 1;

    /** The length to which all languages cut an error's message. */
    private static final int MESSAGE_MAX = 4096;

    /** The name of the error's class. */
    private final String type;

    /** The error's message. */
    private final String message;

    /** The other data of the error, as JSON, or null. */
    private final String data;

    /**
     * For tests and frameworks that replace the client.
     *
     * @param type the name of the error's class, without its package
     * @param message its message
     * @param data its other data, as JSON; null if it has none
     */
    public KeptErrorException(String type, String message, String data) {
        super("the call failed for all its callers: " + type + ": " + message);
        this.type = type;
        this.message = message;
        this.data = data;
    }

    /**
     * The name of the error's class.
     *
     * @return without its package
     */
    public String type() {
        return type;
    }

    /**
     * The error's own message.
     *
     * @return text, maybe empty
     */
    public String errorMessage() {
        return message;
    }

    /**
     * The other data of the error; only Python's callers leave some.
     *
     * @return JSON
     */
    public Optional<String> data() {
        return Optional.ofNullable(data);
    }

    /** Encodes an error, as in all languages. */
    static byte[] encoded(Throwable error) {
        if (error instanceof KeptErrorException kept) {
            return encoded(kept.type, kept.message, kept.data);
        }
        String message = error.getMessage();
        message = message == null ? "" : message;
        int length = Math.min(message.length(), MESSAGE_MAX);
        if (length < message.length() && Character.isHighSurrogate(message.charAt(length - 1))) {
            length--; // half a character is no text to Python
        }
        return encoded(error.getClass().getSimpleName(), message.substring(0, length), null);
    }

    private static byte[] encoded(String type, String message, String data) {
        StringBuilder json = new StringBuilder("{\"type\":");
        quote(json, type);
        quote(json.append(",\"message\":"), message);
        return Bytes.of(json.append(",\"data\":").append(data).append('}').toString());
    }

    private static void quote(StringBuilder json, String text) {
        json.append('"');
        for (char each : text.toCharArray()) {
            if (each == '"' || each == '\\') {
                json.append('\\').append(each);
            } else if (each < ' ' || each > '~') {
                json.append(String.format("\\u%04x", (int) each));
            } else {
                json.append(each);
            }
        }
        json.append('"');
    }

    /** Decodes an error; any other text is the message of an error without a type. */
    static KeptErrorException decoded(byte[] bytes) {
        String text = Bytes.text(bytes);
        try {
            Map<String, String> parts = new Reader(text).object();
            String data = parts.get("data");
            return new KeptErrorException(
                    Reader.text(parts.get("type")),
                    Reader.text(parts.get("message")),
                    "null".equals(data) ? null : data);
        } catch (RuntimeException e) {
            return new KeptErrorException("", text, null);
        }
    }

    /** Splits one JSON object into its members; their values stay JSON. */
    private static final class Reader {
        private final String json;
        private int at;

        Reader(String json) {
            this.json = json;
        }

        Map<String, String> object() {
            Map<String, String> members = new HashMap<>();
            expect('{');
            while (skip() != '}') {
                String name = text(value());
                expect(':');
                members.put(name, value());
                if (skip() == ',') {
                    at++;
                }
            }
            return members;
        }

        private char skip() {
            while (Character.isWhitespace(json.charAt(at))) {
                at++;
            }
            return json.charAt(at);
        }

        private void expect(char wanted) {
            if (skip() != wanted) {
                throw new IllegalArgumentException("no " + wanted + " at " + at);
            }
            at++;
        }

        /** Returns a value as its JSON. */
        private String value() {
            skip();
            int start = at;
            int depth = 0;
            do {
                char each = json.charAt(at);
                if (each == '"') {
                    for (at++; json.charAt(at) != '"'; at++) {
                        at += json.charAt(at) == '\\' ? 1 : 0;
                    }
                } else if (each == '{' || each == '[') {
                    depth++;
                } else if (each == '}' || each == ']') {
                    depth--;
                }
                at++;
            } while (depth > 0
                    || (json.charAt(start) != '"' && ",:}] \n\r\t".indexOf(json.charAt(at)) < 0));
            return json.substring(start, at);
        }

        /** Returns the text of a JSON string. */
        static String text(String quoted) {
            if (quoted.charAt(0) != '"') {
                throw new IllegalArgumentException(quoted + " is no string");
            }
            StringBuilder text = new StringBuilder();
            for (int i = 1; i < quoted.length() - 1; i++) {
                char each = quoted.charAt(i);
                if (each != '\\') {
                    text.append(each);
                    continue;
                }
                each = quoted.charAt(++i);
                if (each == 'u') {
                    text.append((char) Integer.parseInt(quoted.substring(i + 1, i + 5), 16));
                    i += 4;
                } else {
                    int plain = "bfnrt".indexOf(each);
                    text.append(plain < 0 ? each : "\b\f\n\r\t".charAt(plain));
                }
            }
            return text.toString();
        }
    }
}
