package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.testing.TestRedis;
import org.junit.jupiter.api.Test;

/** A server for the tests of users. */
final class TestRedisTest {

    @Test
    void aServerIsStartedAndEnds() {
        String url;
        try (TestRedis redis = TestRedis.start();
                HoldfastClient client = Holdfast.connect(redis.url())) {
            url = redis.url();
            assertTrue(client.lock("stock").tryLock());
            redis.close();
        }
        assertThrows(ConnectionFailedException.class, () -> Holdfast.connect(url));
    }
}
