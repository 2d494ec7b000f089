import io.holdfast.HoldfastLock;
import java.util.List;
import java.util.UUID;
import java.util.function.LongConsumer;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.JedisPubSub;

/** The way of Redisson: a hash with a counter for the thread, and a message when the lock is free.
 */
final class ReentrantRedisLock {
    private static final String LOCK =
            """
            if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
                redis.call('hincrby', KEYS[1], ARGV[1], 1)
                redis.call('pexpire', KEYS[1], ARGV[2])
                return nil
            end
            return redis.call('pttl', KEYS[1])
            """;
    private static final String UNLOCK =
            """
            if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
                return redis.error_reply('not the holder')
            end
            if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then
                redis.call('del', KEYS[1])
                redis.call('publish', KEYS[1], 'free')
            end
            return 1
            """;

    private final JedisPooled jedis;
    private final String key;
    private final long millis;
    private final String process = UUID.randomUUID().toString();
    private final Object free = new Object();

    ReentrantRedisLock(JedisPooled jedis, String key, long millis) {
        this.jedis = jedis;
        this.key = key;
        this.millis = millis;
        Thread listener = new Thread(() -> jedis.subscribe(new Listener(), key));
        listener.setDaemon(true);
        listener.start();
    }

    private final class Listener extends JedisPubSub {
        @Override
        public void onMessage(String channel, String message) {
            synchronized (free) {
                free.notifyAll();
            }
        }
    }

    private String owner() {
        return process + ":" + Thread.currentThread().getId();
    }

    void lock() throws InterruptedException {
        synchronized (free) { // so that no message is missed between the look and the wait
            Object left = tryLock();
            while (left != null) {
                free.wait(Math.max(1, (Long) left));
                left = tryLock();
            }
        }
    }

    private Object tryLock() {
        return jedis.eval(LOCK, List.of(key), List.of(owner(), String.valueOf(millis)));
    }

    void unlock() {
        jedis.eval(UNLOCK, List.of(key), List.of(owner()));
    }
}

final class InPlaceOfReentrant {
    static void work(HoldfastLock lock, LongConsumer work) {
        lock.lock();
        try {
            work.accept(lock.fence());
        } finally {
            lock.unlock();
        }
    }
}
