package io.holdfast.internal.memory;

import io.holdfast.LockInfo;
import io.holdfast.Locks;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.regex.Pattern;

/** A walk over the locks in memory: those that existed when it began, and still do. */
final class MemoryLocks implements Locks {
    private final MemoryNames locks;
    private final MemoryBook book;
    private final List<byte[]> names;
    private int at;
    private long told;
    private LockInfo next;
    private boolean closed;

    MemoryLocks(MemoryNames locks, MemoryBook book, String pattern) {
        this.locks = locks;
        this.book = book;
        Pattern regex = Pattern.compile(regex(pattern), Pattern.DOTALL);
        this.names =
                locks.names().stream()
                        .filter(name -> regex.matcher(text(name)).matches())
                        .map(ByteBuffer::array)
                        .toList();
    }

    /** Makes one character of each byte, as Redis matches. */
    private static String text(ByteBuffer name) {
        return new String(name.array(), StandardCharsets.ISO_8859_1);
    }

    private static String regex(String pattern) {
        String bytes =
                new String(pattern.getBytes(StandardCharsets.UTF_8), StandardCharsets.ISO_8859_1);
        StringBuilder made = new StringBuilder();
        for (int i = 0; i < bytes.length(); i++) {
            char each = bytes.charAt(i);
            int end = bytes.indexOf(']', i);
            if (each == '*') {
                made.append(".*");
            } else if (each == '?') {
                made.append('.');
            } else if (each == '[' && end > i + 1) {
                made.append(bytes, i, end + 1);
                i = end;
            } else {
                boolean quoted = each == '\\' && i + 1 < bytes.length();
                made.append(Pattern.quote(String.valueOf(quoted ? bytes.charAt(++i) : each)));
            }
        }
        return made.toString();
    }

    @Override
    public boolean hasNext() {
        return book.server.locked(
                () -> {
                    checkOpen();
                    book.checkOpen();
                    while (next == null && at < names.size()) {
                        byte[] name = names.get(at++);
                        LockInfo seen = locks.state(name).seen(name, 0);
                        next =
                                seen.held() || seen.waiters() > 0 || seen.limit().isPresent()
                                        ? seen
                                        : null;
                    }
                    return next != null;
                });
    }

    @Override
    public LockInfo next() {
        if (!hasNext()) {
            throw new NoSuchElementException("the walk has told all locks");
        }
        LockInfo found = next;
        next = null;
        told++;
        return found;
    }

    @Override
    public Progress progress() {
        checkOpen();
        return new Progress(told, at, names.size(), 0, 0, 0, Duration.ZERO);
    }

    private void checkOpen() {
        if (closed) {
            throw MemoryServer.closed();
        }
    }

    @Override
    public void close() {
        closed = true;
    }
}
