package io.holdfast.internal.redis;

import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.holdfast.ClientOptions;
import io.holdfast.Holds;
import io.holdfast.LockOptions;
import io.holdfast.internal.core.ClientSettings;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.testing.TestRedis;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Several locks, when there is no memory for one of their holds. */
final class RedisLocksAllTest {
    private static final Duration SOON = Duration.ofSeconds(20);

    @Test
    void ofHoldsThatCannotAllBeMadeNoneIsLeft() throws Exception {
        LockSettings longer =
                LockSettings.of(LockOptions.defaults().lease(Duration.ofMinutes(10)));
        try (TestRedis redis = TestRedis.start()) {
            Session session =
                    new Session(redis.url(), ClientSettings.of(ClientOptions.defaults()));
            List<RedisLock> locks = new ArrayList<>();
            for (byte name : new byte[] {'a', 'b', 'c'}) {
                locks.add(new RedisLock(session, new byte[] {name}, longer, false));
            }
            CompletableFuture<Holds> future =
                    new RedisLocksAll(session, withoutMemoryForTheSecond(locks))
                            .begin(SOON, false);
            ExecutionException failed =
                    assertThrows(
                            ExecutionException.class,
                            () -> future.get(20, TimeUnit.SECONDS));
            assertInstanceOf(OutOfMemoryError.class, failed.getCause());
            locks.remove(1); // the test itself kept the hold of this lock from being made
            for (RedisLock lock : locks) {
                lock.acquire(SOON).close();
            }
            session.close();
        }
    }

    private static List<RedisLock> withoutMemoryForTheSecond(List<RedisLock> locks) {
        return new ArrayList<>(locks) {
            private static final long serialVersionUID = 1;

            @Override
            public RedisLock get(int at) {
                if (at == 1) {
                    throw new OutOfMemoryError("in a test");
                }
                return super.get(at);
            }
        };
    }
}
