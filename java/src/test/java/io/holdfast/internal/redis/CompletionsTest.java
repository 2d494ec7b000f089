package io.holdfast.internal.redis;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.ClientOptions;
import io.holdfast.internal.core.ClientSettings;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.LockSettings;
import io.holdfast.testing.TestRedis;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** A completion of an operation that no caller waits for. */
final class CompletionsTest {
    private static final byte[] NAME = {'a'};

    @Test
    void anUnknownCompletionIsLoggedAndTheOthersArrive() throws Exception {
        try (TestRedis redis = TestRedis.start()) {
            Session session =
                    new Session(redis.url(), ClientSettings.of(ClientOptions.defaults()));
            session.call(client -> startUnknown(client));
            RedisLock lock = new RedisLock(session, NAME, new LockSettings(), true);
            assertTrue(lock.acquireAsync().get(20, TimeUnit.SECONDS).isValid());
            session.close();
        }
    }

    /** Its completion is on the queue before that of the acquire. */
    private static int startUnknown(long client) {
        try (var options = new LockSettings().toCore(true)) {
            long lock = Core.hf_lock_open(client, NAME, null, options);
            Core.hf_lock_acquire_start(lock, null, 0, null, 12345);
            Core.hf_lock_close(lock);
            return 0;
        }
    }
}
