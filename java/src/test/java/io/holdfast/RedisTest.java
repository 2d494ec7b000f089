package io.holdfast;

import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import redis.clients.jedis.Jedis;

/** A client, a lock of a new name, the same lock for another owner, and a look at the server. */
abstract class RedisTest {
    static final RedisServer SERVER = RedisServer.shared();
    static final Duration SECOND = Duration.ofSeconds(1);
    static final Duration LONG = Duration.ofSeconds(10);

    final String name = "test:" + UUID.randomUUID();
    HoldfastClient client;
    HoldfastLock lock;
    HoldfastLock stranger;
    Jedis redis;

    String url() {
        return SERVER.tcpUrl;
    }

    @BeforeEach
    void open() {
        client = Holdfast.connect(url());
        lock = client.lock(name);
        stranger = client.lock(name, LockOptions.defaults().owner("stranger"));
        redis = SERVER.look();
    }

    @AfterEach
    void close() {
        client.close();
        redis.close();
    }

    /** How many acquires wait on the server. */
    long queued() {
        return redis.zcard("{" + name + "}" + name + ":hf1:q");
    }

    static double secondsSince(long nanoTime) {
        return (System.nanoTime() - nanoTime) / 1e9;
    }
}
