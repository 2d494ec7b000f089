package io.holdfast;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import redis.clients.jedis.Jedis;

/** On a Redis, with a look at the server. */
abstract class RedisTest extends ClientTest {
    static final RedisServer SERVER = RedisServer.shared();

    Jedis redis;

    String url() {
        return SERVER.tcpUrl;
    }

    @Override
    HoldfastClient connect() {
        return SERVER.connect();
    }

    @BeforeEach
    void look() {
        redis = SERVER.look();
    }

    @AfterEach
    void lookNoMore() {
        redis.close();
    }

    /** How many acquires wait on the server. */
    long queued() {
        return redis.zcount("{" + name + "}" + name + ":hf1:q", 0, 1L << 53);
    }
}
