import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.params.SetParams;

/**
 * The contenders in Java, for run.py, which describes the protocol of these programs.
 *
 * <p>Field NAME HOST PORT PAGE
 */
public final class Field {
    private static final Duration LEASE = Duration.ofSeconds(10);

    private interface Lock {
        void acquire();

        void release();
    }

    /**
     * Makers of locks that are not renewed, of locks that are renewed, and of locks that a number
     * of threads share (0: all); null if the library has none.
     */
    private record Contender(
            Function<String, Lock> lock,
            BiFunction<String, Duration, Lock> renewed,
            BiFunction<String, Integer, Lock> shared) {}

    private static Contender connect(String kind, String host, int port) {
        return switch (kind) {
            case "holdfast" -> ours(Holdfast.connect("redis://" + host + ":" + port));
            case "rlock" -> redisson("redis://" + host + ":" + port, false);
            case "fairlock" -> redisson("redis://" + host + ":" + port, true);
            case "jedis" -> jedis(new JedisPooled(host, port));
            default -> throw new IllegalArgumentException("no contender is called " + kind);
        };
    }

    private static Contender ours(HoldfastClient client) {
        LockOptions options = LockOptions.defaults().lease(LEASE).renew(false);
        return new Contender(
                name -> ours(client.lock(name, options)),
                (name, lease) -> ours(client.lock(name, options.lease(lease).renew(true))),
                (name, permits) ->
                        ours(
                                client.lock(name, permits == 0 ? options : options.permits(permits))
                                        .shared()));
    }

    private static Lock ours(HoldfastLock lock) {
        return new Lock() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static RedissonClient redisson(String url, Duration watchdog) {
        var config = new Config();
        config.useSingleServer().setAddress(url);
        if (watchdog != null) {
            config.setLockWatchdogTimeout(watchdog.toMillis());
        }
        return Redisson.create(config);
    }

    private static RedissonClient renewing;

    /** With its defaults, except that a lease that its watchdog renews is as long as the others'.
     */
    private static Contender redisson(String url, boolean fair) {
        RedissonClient client = redisson(url, null);
        return new Contender(
                name -> redisson(fair ? client.getFairLock(name) : client.getLock(name), LEASE),
                (name, lease) -> {
                    if (renewing == null) {
                        renewing = redisson(url, lease);
                    }
                    return redisson(renewing.getLock(name), (Duration) null);
                },
                (name, permits) ->
                        permits == 0
                                ? redisson(client.getReadWriteLock(name).readLock(), LEASE)
                                : redisson(client.getSemaphore(name), permits));
    }

    /** The semaphore has no lease: the permits of a client that dies are lost. */
    private static Lock redisson(RSemaphore semaphore, int permits) {
        semaphore.trySetPermits(permits);
        return new Lock() {
            @Override
            public void acquire() {
                try {
                    semaphore.acquire();
                } catch (InterruptedException unexpected) {
                    throw new IllegalStateException(unexpected);
                }
            }

            @Override
            public void release() {
                semaphore.release();
            }
        };
    }

    private static Lock redisson(RLock lock, Duration lease) {
        return new Lock() {
            @Override
            public void acquire() {
                if (lease == null) {
                    lock.lock();
                } else {
                    lock.lock(lease.toMillis(), TimeUnit.MILLISECONDS);
                }
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    /** The lock by hand, which polls every 10 ms. */
    private static Contender jedis(JedisPooled client) {
        String compareAndDelete =
                "if redis.call('get', KEYS[1]) == ARGV[1] then"
                        + " return redis.call('del', KEYS[1]) end return 0";
        String script = client.scriptLoad(compareAndDelete, "");
        SetParams free = SetParams.setParams().nx().px(LEASE.toMillis());
        return new Contender(
                name -> {
                    String owner = UUID.randomUUID().toString();
                    return new Lock() {
                        @Override
                        public void acquire() {
                            while (client.set(name, owner, free) == null) {
                                sleep(10_000_000);
                            }
                        }

                        @Override
                        public void release() {
                            client.evalsha(script, List.of(name), List.of(owner));
                        }
                    };
                },
                null,
                null);
    }

    // ------------------------------------------------------------------ Tasks

    private static final int INSIDE = 0; // the layout of run.py
    private static final int TURNS = 1;
    private static final int LAST = 2;
    private static final int CHANGES = 3;
    private static final int VIOLATIONS = 4;
    private static LongBuffer page;
    private static String key; // each contender has keys of its own

    /** Does the work of a holder: nothing, but it notices company. */
    private static void takeTurn(long me) {
        if (page.get(INSIDE) != 0) {
            page.put(VIOLATIONS, page.get(VIOLATIONS) + 1);
        }
        page.put(INSIDE, me);
        long turns = page.get(TURNS);
        if (page.get(LAST) != me) {
            page.put(LAST, me);
            page.put(CHANGES, page.get(CHANGES) + 1);
        }
        page.put(TURNS, turns + 1);
        if (page.get(INSIDE) != me) {
            page.put(VIOLATIONS, page.get(VIOLATIONS) + 1);
        }
        page.put(INSIDE, 0);
    }

    private static void sleep(long ns) {
        try {
            TimeUnit.NANOSECONDS.sleep(ns);
        } catch (InterruptedException unexpected) {
            throw new IllegalStateException(unexpected);
        }
    }

    private static final List<Lock> crowd = new ArrayList<>(); // connected, and kept for all crowds

    private static String runCrowd(Contender it, int count, int first, long begin, long end)
            throws InterruptedException {
        long[] turns = new long[count];
        long[] longest = new long[count];
        var threads = new ArrayList<Thread>();
        while (crowd.size() < count) {
            crowd.add(it.lock.apply(key + ":crowd"));
        }
        for (int number = 0; number < count; number++) {
            int i = number;
            Lock lock = crowd.get(i);
            threads.add(
                    new Thread(
                            () -> {
                                sleep(Math.max(0, begin - System.nanoTime()));
                                for (long now = begin; now < end; ) {
                                    long since = System.nanoTime();
                                    lock.acquire();
                                    now = System.nanoTime();
                                    longest[i] = Math.max(longest[i], Math.min(now, end) - since);
                                    if (now < end) {
                                        takeTurn(first + i + 1);
                                        turns[i]++;
                                    }
                                    lock.release();
                                }
                            }));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return "{\"turns\": %s, \"longest\": %s}"
                .formatted(Arrays.toString(turns), Arrays.toString(longest));
    }

    /**
     * Lets threads acquire and release for some time, and returns the number of turns: on one lock
     * with `permits` (0: shared by all), or, if that is -1, on a lock for each thread.
     */
    private static String runShared(Contender it, int permits, int count, long ms)
            throws InterruptedException {
        var turns = new LongAdder();
        var threads = new ArrayList<Thread>();
        String name = key + ":shared:" + permits;
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
        for (int number = 0; number < count; number++) {
            Lock lock =
                    permits < 0
                            ? it.lock.apply(name + ":" + number)
                            : it.shared.apply(name, permits);
            threads.add(
                    new Thread(
                            () -> {
                                while (System.nanoTime() < end) {
                                    lock.acquire();
                                    lock.release();
                                    turns.increment();
                                }
                            }));
        }
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return "{\"turns\": %d}".formatted(turns.sum());
    }

    private static String runPairs(Lock lock, int count) {
        long since = System.nanoTime();
        for (int i = 0; i < count; i++) {
            lock.acquire();
            lock.release();
        }
        return "{\"ns\": %d}".formatted((System.nanoTime() - since) / count);
    }

    private static String hold(Contender it, int count, Duration lease) {
        for (int i = 0; i < count; i++) {
            it.renewed.apply(key + ":held:" + i, lease).acquire();
        }
        return "{\"held\": %d}".formatted(count);
    }

    public static void main(String[] args) throws Exception {
        // An exception in any thread ends the process; run.py reports that it has ended.
        Thread.setDefaultUncaughtExceptionHandler(
                (thread, failure) -> {
                    failure.printStackTrace();
                    Runtime.getRuntime().halt(1);
                });
        try (var file =
                FileChannel.open(
                        Path.of(args[3]), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            page =
                    file.map(FileChannel.MapMode.READ_WRITE, 0, 5 * Long.BYTES)
                            .order(ByteOrder.nativeOrder())
                            .asLongBuffer();
        }
        key = args[0];
        Contender it = connect(args[0], args[1], Integer.parseInt(args[2]));
        Lock pairs = it.lock.apply(key + ":pairs:" + ProcessHandle.current().pid());
        Lock handoff = it.lock.apply(key + ":handoff");
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.split(" ");
            long[] number = Arrays.stream(words).skip(1).mapToLong(Long::parseLong).toArray();
            System.out.println(
                    switch (words[0]) {
                        case "pairs" -> runPairs(pairs, (int) number[0]);
                        case "take" -> {
                            handoff.acquire();
                            yield "{\"at\": %d}".formatted(System.nanoTime());
                        }
                        case "give" -> {
                            long at = System.nanoTime();
                            handoff.release();
                            yield "{\"at\": %d}".formatted(at);
                        }
                        case "crowd" ->
                                runCrowd(
                                        it, (int) number[0], (int) number[1], number[2], number[3]);
                        case "shared" ->
                                runShared(it, (int) number[0], (int) number[1], number[2]);
                        case "hold" -> hold(it, (int) number[0], Duration.ofMillis(number[1]));
                        default -> throw new IllegalArgumentException(line);
                    });
        }
        Runtime.getRuntime().halt(0); // Redisson has threads that do not end
    }
}
