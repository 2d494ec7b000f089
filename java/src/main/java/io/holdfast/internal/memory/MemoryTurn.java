package io.holdfast.internal.memory;

import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.Turn;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A turn in memory: a hold, or the result of an earlier call. */
final class MemoryTurn implements Turn {
    private static final int LONGEST = 1 << 24;
    private static final int LONGEST_NOTE = 1024;

    private final MemoryHold hold;
    private final byte[] result;
    private final OnceOptions<?> options;

    MemoryTurn(MemoryHold hold, byte[] result, OnceOptions<?> options) {
        this.hold = hold;
        this.result = result;
        this.options = options;
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
    public void end(Outcome.State state, byte[] bytes, Duration ttl) {
        MemoryHold mine = hold();
        boolean keeps = state == Outcome.State.DONE || state == Outcome.State.FAILED;
        int most = keeps ? LONGEST : LONGEST_NOTE;
        if (bytes.length > most) {
            throw new IllegalArgumentException(
                    "the result has " + bytes.length + " bytes: at most " + most);
        }
        if (keeps) {
            Millis.ttl(ttl);
        } else if (state == Outcome.State.RUNNING || !ttl.isZero()) {
            throw new IllegalArgumentException("a call does not end by " + state);
        }
        mine.finish(new MemoryRecord.End(state, bytes.clone(), ttl, options));
    }

    @Override
    public CompletableFuture<Void> endAsync(Outcome.State state, byte[] bytes, Duration ttl) {
        try {
            end(state, bytes, ttl);
            return CompletableFuture.completedFuture(null);
        } catch (IllegalArgumentException e) {
            throw e;
        } catch (IllegalStateException e) {
            if (hold == null) {
                throw e;
            }
            return CompletableFuture.failedFuture(e);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }
}
