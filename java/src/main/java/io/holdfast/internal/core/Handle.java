package io.holdfast.internal.core;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.Supplier;

/**
 * A pointer of the core. It is given back once, and never during a call: the last running call gives
 * it back.
 */
public final class Handle {
    public static final Cleaner CLEANER = Cleaner.create();
    private static final int CLOSED = Integer.MIN_VALUE;

    private final long pointer;
    private final LongConsumer giveBack;
    /** The number of running calls; once CLOSED is added (a negative number), no further call starts. */
    private final AtomicInteger calls = new AtomicInteger();

    private Cleaner.Cleanable cleanable;

    public Handle(long pointer, LongConsumer giveBack) {
        this.pointer = pointer;
        this.giveBack = giveBack;
    }

    /** Runs the action if the holder is dropped before a close; the action must not refer to the holder. */
    public void whenDropped(Object holder, Runnable action) {
        cleanable =
                CLEANER.register(
                        holder,
                        () -> {
                            if (!isClosed()) {
                                action.run();
                            }
                        });
    }

    public boolean isClosed() {
        return calls.get() < 0;
    }

    /** Returns the function's result for the pointer; null if the handle is closed. */
    public <T> T call(LongFunction<T> function) {
        return begin() ? finish(function) : null;
    }

    /** Returns the function's result for the pointer; throws the given exception if the handle is closed. */
    public <T> T call(LongFunction<T> function, Supplier<? extends RuntimeException> closed) {
        if (!begin()) {
            throw closed.get();
        }
        return finish(function);
    }

    private boolean begin() {
        return calls.getAndUpdate(n -> n < 0 ? n : n + 1) >= 0;
    }

    /** Makes the last call: no call starts after it, though others may still be running. */
    public <T> T close(LongFunction<T> function) {
        if (calls.getAndUpdate(n -> n < 0 ? n : n + 1 + CLOSED) < 0) {
            return null;
        }
        try {
            return finish(function);
        } finally {
            if (cleanable != null) {
                cleanable.clean();
            }
        }
    }

    private <T> T finish(LongFunction<T> function) {
        try {
            return function.apply(pointer);
        } finally {
            if (calls.decrementAndGet() == CLOSED) {
                giveBack.accept(pointer);
            }
        }
    }

    /** Closes without a last call. */
    public void close() {
        close(pointer -> null);
    }
}
