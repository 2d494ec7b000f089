import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockNotHeldException;
import io.holdfast.LockOptions;
import io.holdfast.LockTimeoutException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.SetParams;

/** For neighbours.py: the same as neighbour.py, for a lock of Holdfast, of Jedis or of Redisson. */
public final class Neighbour {
    private static final Duration LEASE = Duration.ofSeconds(12);

    private static Jedis keys; // the database of the locks
    private static Jedis store; // another database, for what the locks protect
    private static HoldfastClient ours;

    // ---------------------------------------------------- The locks of each kind

    /** A lock of a library. */
    private abstract static class Theirs {
        /** Waits for ms; 0 tries once. */
        abstract boolean acquire(long ms) throws Exception;

        abstract void release() throws Exception;

        /** Returns its methods. */
        Map<String, Callable<Object>> methods() {
            return Map.of();
        }

        /** Returns the fence of the hold, if there is one. */
        long fence() {
            return 0;
        }
    }

    private static final class Our extends Theirs {
        private final HoldfastLock lock;
        private Hold hold;

        Our(String key) {
            lock = ours.lock(key, LockOptions.defaults().lease(LEASE).renew(true));
        }

        @Override
        boolean acquire(long ms) throws Exception {
            try {
                hold = lock.acquire(Duration.ofMillis(ms));
                return true;
            } catch (LockTimeoutException busy) {
                return false;
            }
        }

        @Override
        void release() {
            hold.close();
        }

        @Override
        long fence() {
            return hold.fence();
        }
    }

    /** The lock that many programs write: SET NX PX, and a comparison before the delete. */
    private static final class SetNx extends Theirs {
        private static final String RELEASE =
                "if redis.call('get', KEYS[1]) == ARGV[1] then"
                        + " return redis.call('del', KEYS[1]) else return 0 end";

        private final String key;
        private final String token = UUID.randomUUID().toString();

        SetNx(String key) {
            this.key = key;
        }

        private boolean set() {
            return keys.set(key, token, SetParams.setParams().nx().px(LEASE.toMillis())) != null;
        }

        private Object compareAndDelete() {
            return keys.eval(RELEASE, List.of(key), List.of(token));
        }

        @Override
        boolean acquire(long ms) throws Exception {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
            while (!set()) {
                if (System.nanoTime() > end) {
                    return false;
                }
                Thread.sleep(ThreadLocalRandom.current().nextInt(5, 50));
            }
            return true;
        }

        @Override
        void release() {
            compareAndDelete();
        }

        @Override
        Map<String, Callable<Object>> methods() {
            var methods = new LinkedHashMap<String, Callable<Object>>();
            methods.put("SET NX PX", this::set);
            methods.put("compare-and-delete", this::compareAndDelete);
            methods.put("GET", () -> keys.get(key));
            methods.put("EXISTS", () -> keys.exists(key));
            methods.put("DEL", () -> keys.del(key));
            return methods;
        }
    }

    private static final class Redissons extends Theirs {
        private static RedissonClient client;
        private final RLock lock;

        Redissons(String key) {
            lock = client.getLock(key);
        }

        @Override
        boolean acquire(long ms) throws Exception {
            return lock.tryLock(ms, LEASE.toMillis(), TimeUnit.MILLISECONDS);
        }

        @Override
        void release() {
            lock.unlock();
        }

        @Override
        Map<String, Callable<Object>> methods() {
            var methods = new LinkedHashMap<String, Callable<Object>>();
            methods.put("tryLock()", lock::tryLock);
            methods.put(
                    "tryLock(200 ms)", () -> lock.tryLock(200, 1000, TimeUnit.MILLISECONDS));
            methods.put("isLocked()", lock::isLocked);
            methods.put("isHeldByCurrentThread()", lock::isHeldByCurrentThread);
            methods.put("getHoldCount()", lock::getHoldCount);
            methods.put("remainTimeToLive() > 0", () -> lock.remainTimeToLive() > 0);
            methods.put(
                    "unlock()",
                    () -> {
                        lock.unlock();
                        return null;
                    });
            methods.put("forceUnlock()", lock::forceUnlock);
            return methods;
        }
    }

    private static Theirs make(String kind, String key) {
        return switch (kind) {
            case "holdfast" -> new Our(key);
            case "jedis" -> new SetNx(key);
            case "redisson" -> new Redissons(key);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    // ---------------------------------------------------------------- Commands

    /** Checks that no other process is inside for a moment; writes what it has read before. */
    private static void use(String key, long fence) throws InterruptedException {
        String inside = key + ":inside";
        long began = System.nanoTime();
        check(store.incr(inside) == 1, "another is inside already");
        String turns = store.get(key + ":turns");
        Thread.sleep(ThreadLocalRandom.current().nextInt(0, 3));
        check(store.get(inside).equals("1"), "another came inside");
        store.set(key + ":turns", "" + ((turns == null ? 0 : Long.parseLong(turns)) + 1));
        if (fence > 0) {
            String before = store.setGet(key + ":fence", "" + fence);
            boolean greater = before == null || Long.parseLong(before) < fence;
            check(greater, "a fence that is not greater than the one before");
        }
        check(store.decr(inside) == 0, "another came inside before the end");
        boolean quick = System.nanoTime() - began < LEASE.toNanos() / 2;
        check(quick, "this machine is too slow to tell: a turn took half a lease");
    }

    private static void check(boolean true_, String otherwise) {
        if (!true_) {
            System.err.println(otherwise);
            Runtime.getRuntime().halt(1);
        }
    }

    private static String contend(
            String kind, String key, double until, double pause, String wake) throws Exception {
        long end = (long) (until * 1000);
        long turns = 0;
        long longest = 0;
        for (long left; (left = end - System.currentTimeMillis()) > 0; ) {
            long began = System.currentTimeMillis();
            Theirs lock = make(kind, key);
            if (lock.acquire(left)) {
                longest = Math.max(longest, System.currentTimeMillis() - began);
                use(key, lock.fence());
                lock.release();
                turns++;
            }
            if (!wake.isEmpty()) {
                keys.publish(wake, "0");
            }
            Thread.sleep((long) (ThreadLocalRandom.current().nextDouble() * pause));
        }
        return turns + " " + longest / 1000.0 + " 0";
    }

    private static String said(Callable<Object> method) {
        try {
            return String.valueOf(method.call());
        } catch (Exception error) {
            boolean type = String.valueOf(error.getMessage()).contains("WRONGTYPE");
            return error.getClass().getSimpleName() + (type ? " WRONGTYPE" : "");
        }
    }

    private static void theirs(String kind, String key) throws Exception {
        for (String name : make(kind, key).methods().keySet()) {
            Theirs lock = make(kind, key);
            if (!name.startsWith("tryLock") && !name.startsWith("SET")) {
                check(lock.acquire(0), "the key is not free");
                keys.del(key);
            }
            HoldfastLock our = ours.lock(key, LockOptions.defaults().lease(Duration.ofSeconds(10)));
            check(our.tryLock(5, TimeUnit.SECONDS), "the key is not free");
            var before = keys.hgetAll(key);
            String answer = said(lock.methods().get(name));
            boolean gone = !keys.exists(key);
            String fate = keys.hgetAll(key).equals(before) ? "untouched" : "changed";
            System.out.println(name + "\t" + answer + "\t" + (gone ? "gone" : fate));
            try {
                our.unlock();
            } catch (LockNotHeldException lost) {
                check(gone, "a lock was lost although its key stood");
            }
        }
    }

    private static void ours(String kind, String key) throws Exception {
        HoldfastLock our = ours.lock(key, LockOptions.defaults().lease(Duration.ofSeconds(10)));
        var methods = new LinkedHashMap<String, Callable<Object>>();
        methods.put("tryLock()", our::tryLock);
        methods.put("tryLock(100 ms)", () -> our.tryLock(100, TimeUnit.MILLISECONDS));
        methods.put("isLocked()", our::isLocked);
        methods.put("inspect().foreign()", () -> our.inspect().foreign());
        methods.put("forceUnlock()", our::forceUnlock);
        methods.put(
                "unlock()",
                () -> {
                    our.unlock();
                    return null;
                });
        for (var method : methods.entrySet()) {
            if (!method.getKey().startsWith("tryLock")) {
                check(our.tryLock(5, TimeUnit.SECONDS), "the key is not free");
                keys.del(key);
            }
            Theirs lock = make(kind, key);
            check(lock.acquire(0), "the key is not free");
            byte[] before = keys.dump(key);
            long ends = System.currentTimeMillis() + keys.pttl(key);
            String answer = said(method.getValue());
            boolean same = Arrays.equals(keys.dump(key), before);
            same &= Math.abs(System.currentTimeMillis() + keys.pttl(key) - ends) < 500;
            System.out.println(
                    method.getKey() + "\t" + answer + "\t" + (same ? "untouched" : "changed"));
            lock.release();
            while (our.isHeldByCurrentThread()) {
                try {
                    our.unlock();
                } catch (LockNotHeldException lost) {
                    continue;
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        String kind = args[0];
        var where = new HostAndPort(args[1], Integer.parseInt(args[2]));
        keys = new Jedis(where);
        store = new Jedis(where);
        store.select(1);
        ours = Holdfast.connect("redis://" + where + "?connect_timeout=20");
        if (kind.equals("redisson")) {
            var config = new Config();
            config.useSingleServer().setAddress("redis://" + where);
            Redissons.client = Redisson.create(config);
        }
        System.out.println("ready");
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "contend" ->
                        System.out.println(
                                contend(
                                        kind,
                                        words[1],
                                        Double.parseDouble(words[2]),
                                        Double.parseDouble(words[3]),
                                        words.length > 4 ? words[4] : ""));
                case "theirs" -> {
                    theirs(kind, words[1]);
                    System.out.println();
                }
                default -> {
                    ours(kind, words[1]);
                    System.out.println();
                }
            }
        }
        Runtime.getRuntime().halt(0); // Redisson has threads that do not end
    }
}
