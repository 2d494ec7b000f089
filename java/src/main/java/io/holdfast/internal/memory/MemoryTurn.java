package io.holdfast.internal.memory;

import io.holdfast.Turn;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A turn in memory: a hold, or else the result of another. */
final class MemoryTurn implements Turn {
    private static final int LONGEST = 1 << 24;

    private final MemoryHold hold;
    private final byte[] result;

    MemoryTurn(MemoryHold hold, byte[] result) {
        this.hold = hold;
        this.result = result;
    }

    @Override
    public Optional<byte[]> result() {
        return Optional.ofNullable(result);
    }

    @Override
    public MemoryHold hold() {
        if (hold == null) {
            throw new IllegalStateException("it has been done: there is a result, and no hold");
        }
        return hold;
    }

    @Override
    public void finish(byte[] left, Duration ttl) {
        MemoryHold mine = hold();
        if (left.length > LONGEST) {
            throw new IllegalArgumentException(
                    "the result has " + left.length + " bytes: at most " + LONGEST);
        }
        Millis.ttl(ttl);
        mine.finish(left, ttl);
    }

    @Override
    public CompletableFuture<Void> finishAsync(byte[] left, Duration ttl) {
        try {
            finish(left, ttl);
            return CompletableFuture.completedFuture(null);
        } catch (IllegalArgumentException e) {
            throw e;
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }
}
