package io.holdfast.spring;

import jakarta.servlet.http.HttpServletResponse;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.springframework.web.util.ContentCachingResponseWrapper;

/**
 * A kept answer. Its bytes look like HTTP, so that people can write one with {@code holdfast
 * once resolve}: a line with the status, lines with headers, an empty line, the body. If {@code
 * error} follows the status, the body is the message of {@code sendError()}.
 */
record IdempotentAnswer(int status, boolean error, Map<String, String> headers, byte[] body) {
    private static final String[] KEPT = {"Content-Type", "Location"};

    byte[] bytes() {
        StringBuilder head = new StringBuilder().append(status).append(error ? " error\n" : "\n");
        headers.forEach((name, value) -> head.append(name).append(": ").append(value).append('\n'));
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        all.writeBytes(head.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        all.writeBytes(body);
        return all.toByteArray();
    }

    /**
     * Reads an answer.
     *
     * @throws IllegalArgumentException if the bytes are not an answer
     */
    static IdempotentAnswer of(byte[] bytes) {
        String[] first = null;
        Map<String, String> headers = new LinkedHashMap<>();
        for (int at = 0, end; ; at = end + 1) {
            end = at;
            while (end < bytes.length && bytes[end] != '\n') {
                end++;
            }
            String line = new String(bytes, at, end - at, StandardCharsets.UTF_8).strip();
            if (first == null) {
                first = line.split(" ");
            } else if (!line.isEmpty()) {
                int colon = line.indexOf(':');
                if (colon < 1) {
                    throw new IllegalArgumentException("no header: " + line);
                }
                headers.put(line.substring(0, colon), line.substring(colon + 1).strip());
            }
            if (end >= bytes.length || line.isEmpty()) {
                int start = Math.min(end + 1, bytes.length);
                byte[] body = Arrays.copyOfRange(bytes, start, bytes.length);
                boolean error = first.length > 1 && first[1].equals("error");
                return new IdempotentAnswer(Integer.parseInt(first[0]), error, headers, body);
            }
        }
    }

    void send(HttpServletResponse response) throws IOException {
        if (error) {
            sendError(response);
            return;
        }
        response.setStatus(status);
        headers.forEach(response::setHeader);
        response.setContentLength(body.length);
        response.getOutputStream().write(body);
        response.flushBuffer();
    }

    void sendError(HttpServletResponse response) throws IOException {
        if (body.length == 0) {
            response.sendError(status);
        } else {
            response.sendError(status, new String(body, StandardCharsets.UTF_8));
        }
    }

    /** Holds an answer back until it is kept. */
    static final class Pending extends ContentCachingResponseWrapper {
        private final HttpServletResponse response;
        private int error;
        private String message;

        Pending(HttpServletResponse response) {
            super(response);
            this.response = response;
        }

        @Override
        public void sendError(int status) {
            sendError(status, null);
        }

        @Override
        public void sendError(int status, String why) {
            resetBuffer();
            error = status;
            message = why;
        }

        @Override
        public void sendRedirect(String location) {
            resetBuffer();
            setStatus(SC_FOUND);
            setHeader("Location", location);
        }

        @Override
        public void flushBuffer() {
            // The answer must be kept first.
        }

        @Override
        public int getStatus() {
            return error != 0 ? error : super.getStatus();
        }

        IdempotentAnswer answer() {
            Map<String, String> headers = new LinkedHashMap<>();
            for (String each : KEPT) {
                String value = each.equals("Content-Type") ? getContentType() : getHeader(each);
                if (value != null) {
                    headers.put(each, value);
                }
            }
            if (error != 0) {
                String why = message == null ? "" : message;
                return new IdempotentAnswer(
                        error, true, Map.of(), why.getBytes(StandardCharsets.UTF_8));
            }
            return new IdempotentAnswer(getStatus(), false, headers, getContentAsByteArray());
        }

        /** Sends the answer, with all its headers. */
        void send() throws IOException {
            if (error != 0) {
                answer().sendError(response);
            } else {
                copyBodyToResponse();
            }
        }
    }
}
