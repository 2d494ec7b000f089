package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** A client, a lock of a new name, and the same lock for another owner. */
abstract class ClientTest {
    static final Duration SECOND = Duration.ofSeconds(1);
    static final Duration LONG = Duration.ofSeconds(10);

    final String name = "test:" + UUID.randomUUID();
    HoldfastClient client;
    HoldfastLock lock;
    HoldfastLock stranger;

    /** One more client of the same locks. */
    abstract HoldfastClient connect();

    @BeforeEach
    void open() {
        client = connect();
        lock = client.lock(name);
        stranger = client.lock(name, LockOptions.defaults().owner("stranger"));
    }

    @AfterEach
    void close() {
        client.close();
    }

    /** It did not wait for what takes LONG or longer; the machine may be busy. */
    static void assertInTime(long start) {
        assertTrue(secondsSince(start) < 8, () -> secondsSince(start) + " s");
    }

    static double secondsSince(long nanoTime) {
        return (System.nanoTime() - nanoTime) / 1e9;
    }
}
