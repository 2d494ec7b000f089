package io.holdfast.testing;

import io.holdfast.Turn;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A turn in memory: a hold, or else the result of another. */
final class MemoryTurn implements Turn {
    private static final int LONGEST = 1 << 20;
    private static final Duration SHORTEST = Duration.ofSeconds(10);

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
        if (ttl.compareTo(SHORTEST) < 0) {
            throw new IllegalArgumentException("a ttl takes 10 seconds to 10 years: " + ttl);
        }
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
