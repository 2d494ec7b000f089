package io.holdfast.internal.redis;

import io.holdfast.Outcome;
import io.holdfast.Turn;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A turn on Redis: a hold, or the result of an earlier call. */
final class RedisTurn implements Turn {
    private final RedisHold hold;
    private final byte[] result;
    private final boolean atMostOnce;

    RedisTurn(RedisHold hold, byte[] result, boolean atMostOnce) {
        this.hold = hold;
        this.result = result;
        this.atMostOnce = atMostOnce;
    }

    @Override
    public Optional<byte[]> result() {
        return Optional.ofNullable(result);
    }

    @Override
    public RedisHold hold() {
        if (hold == null) {
            throw new IllegalStateException("it has been done: there is a result, and no hold");
        }
        return hold;
    }

    @Override
    public void end(Outcome.State state, byte[] bytes, Duration ttl) {
        if (saysNothing(state)) {
            hold().release();
        } else {
            hold().finish(number(state), checked(state, bytes), millis(state, ttl));
        }
    }

    @Override
    public CompletableFuture<Void> endAsync(Outcome.State state, byte[] bytes, Duration ttl) {
        return saysNothing(state)
                ? hold().releaseAsync()
                : hold().finishAsync(
                                number(state), checked(state, bytes), millis(state, ttl));
    }

    private static boolean keeps(Outcome.State state) {
        return state == Outcome.State.DONE || state == Outcome.State.FAILED;
    }

    /** Whether a plain release is enough: the state means nothing to later callers, and the next caller calls. */
    private boolean saysNothing(Outcome.State state) {
        Objects.requireNonNull(state, "state");
        return !atMostOnce && !keeps(state) && state != Outcome.State.RUNNING;
    }

    private static int number(Outcome.State state) {
        if (state == Outcome.State.RUNNING) {
            throw new IllegalArgumentException("a call does not end by running");
        }
        return Views.number(state);
    }

    private static long millis(Outcome.State state, Duration ttl) {
        return keeps(state) ? Millis.ttl(ttl) : Millis.of(ttl);
    }

    /** Checks the size before the end begins: after a failed end the hold cannot be used any more. */
    private static byte[] checked(Outcome.State state, byte[] bytes) {
        int most = keeps(state) ? Core.HF_RESULT_MAX : Core.HF_NOTE_MAX;
        if (bytes.length > most) {
            throw new IllegalArgumentException(
                    "the result has " + bytes.length + " bytes: at most " + most);
        }
        return bytes;
    }
}
