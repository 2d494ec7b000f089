package io.holdfast.internal.redis;

import io.holdfast.Turn;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/** A turn on Redis: a hold, or else the result of another. */
final class RedisTurn implements Turn {
    private final RedisHold hold;
    private final byte[] result;

    RedisTurn(RedisHold hold, byte[] result) {
        this.hold = hold;
        this.result = result;
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
    public void finish(byte[] left, Duration ttl) {
        hold().finish(checked(left), Millis.ttl(ttl));
    }

    @Override
    public CompletableFuture<Void> finishAsync(byte[] left, Duration ttl) {
        return hold().finishAsync(checked(left), Millis.ttl(ttl));
    }

    /** Here, because a hold whose end has begun in vain cannot be used any more. */
    private static byte[] checked(byte[] left) {
        if (left.length > Core.HF_RESULT_MAX) {
            throw new IllegalArgumentException(
                    "the result has " + left.length + " bytes: at most " + Core.HF_RESULT_MAX);
        }
        return left;
    }
}
