import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import java.util.function.LongConsumer;
import redis.clients.jedis.JedisPooled;

/** SETNX, then an expiry, and a way to heal a crash between the two: the value says when the lock
 * ends. */
final class HealingLock {
    private final JedisPooled jedis;
    private final String key;
    private final int seconds;

    HealingLock(JedisPooled jedis, String key, int seconds) {
        this.jedis = jedis;
        this.key = key;
        this.seconds = seconds;
    }

    boolean tryLock() {
        if (jedis.setnx(key, end()) == 1) {
            jedis.expire(key, seconds);
            return true;
        }
        String end = jedis.get(key);
        if (end != null && Long.parseLong(end) < System.currentTimeMillis()) {
            // The holder died before expire(). Of all callers that see this, the first GETSET wins.
            return end.equals(jedis.getSet(key, end()));
        }
        return false;
    }

    void lock() throws InterruptedException {
        while (!tryLock()) {
            Thread.sleep(50);
        }
    }

    void unlock() {
        jedis.del(key);
    }

    private String end() {
        return String.valueOf(System.currentTimeMillis() + seconds * 1000L);
    }
}

final class InPlaceOfHealing {
    static void work(HoldfastLock lock, LongConsumer work) throws InterruptedException {
        try (Hold hold = lock.acquire()) {
            work.accept(hold.fence());
        }
    }
}
