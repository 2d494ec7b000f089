import io.holdfast.Hold;
import io.holdfast.HoldfastClient;
import io.holdfast.LockOptions;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.function.LongConsumer;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.stereotype.Component;

/** A bean for all locks of a Spring application. It remembers the token of each thread. */
@Component
class ThreadLock {
    private final StringRedisTemplate redis;
    private final ThreadLocal<String> token = new ThreadLocal<>();

    ThreadLock(StringRedisTemplate redis) {
        this.redis = redis;
    }

    boolean tryLock(String key, Duration expiry) {
        String mine = UUID.randomUUID().toString();
        if (!Boolean.TRUE.equals(redis.opsForValue().setIfAbsent(key, mine, expiry))) {
            return false;
        }
        token.set(mine);
        return true;
    }

    void lock(String key, Duration expiry) throws InterruptedException {
        while (!tryLock(key, expiry)) {
            Thread.sleep(50);
        }
    }

    void unlock(String key) {
        if (Objects.equals(redis.opsForValue().get(key), token.get())) { // only its own token
            redis.delete(key);
        }
        token.remove();
    }
}

@Component
class InPlaceOfThreadLock {
    private final HoldfastClient client;

    InPlaceOfThreadLock(HoldfastClient client) {
        this.client = client;
    }

    void work(String key, LockOptions options, LongConsumer work) throws InterruptedException {
        try (Hold hold = client.lock(key, options).acquire()) {
            work.accept(hold.fence());
        }
    }
}
