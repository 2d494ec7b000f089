import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.LongConsumer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.jedis.JedisConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import redis.clients.jedis.JedisPooled;

/** For test_by_hand.py: the same as worker.py, for the locks in Java. */
public final class Worker {
    /** A lock by hand, or its replacement, around some work. */
    private interface Section {
        void work(LongConsumer work) throws Exception;
    }

    /** Started on first use. */
    private static final class Spring {
        static final AnnotationConfigApplicationContext CONTEXT = spring();
    }

    private interface Step {
        void take() throws Exception;
    }

    private static final String WRITE =
            """
            if ARGV[2] ~= '0' then
                if tonumber(ARGV[2]) < tonumber(redis.call('get', KEYS[2]) or 0) then return 0 end
                redis.call('set', KEYS[2], ARGV[2])
            end
            redis.call('set', KEYS[1], ARGV[1])
            return 1
            """;

    private static final BlockingQueue<String> TOLD = new LinkedBlockingQueue<>();
    private static final Map<String, Section> SECTIONS = new ConcurrentHashMap<>();
    private static JedisPooled jedis;
    private static HoldfastClient client;
    private static URI url;

    public static void main(String[] args) {
        url = URI.create(args[0]);
        jedis = new JedisPooled(url, 20_000);
        client = Holdfast.connect(args[0] + "?connect_timeout=20");
        say("ready");
        for (Scanner input = new Scanner(System.in); input.hasNextLine(); ) {
            String line = input.nextLine();
            String[] words = line.split(" ");
            if (words[0].equals("enter")) {
                Duration lease = Duration.ofMillis(Long.parseLong(words[3]));
                new Thread(() -> enter(words[1], List.of(words[2].split(",")), lease)).start();
            } else {
                TOLD.add(line);
            }
        }
        System.exit(0);
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }

    private static void enter(String way, List<String> keys, Duration lease) {
        try {
            enter(way, keys, 0, lease);
            say("out");
        } catch (Exception e) {
            say(e.getClass().getSimpleName());
        }
    }

    private static void enter(String way, List<String> keys, int n, Duration lease) throws Exception {
        String key = keys.get(n);
        Section section = SECTIONS.computeIfAbsent(way + key, new_ -> section(way, key, lease));
        section.work(fence -> {
            try {
                if (n + 1 < keys.size()) {
                    enter(way, keys, n + 1, lease);
                } else {
                    inside(key, fence);
                }
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private static void inside(String key, long fence) throws InterruptedException {
        say("in");
        for (String line = TOLD.take(); !line.startsWith("leave"); line = TOLD.take()) {
            List<String> keys = List.of("{" + key + "}:data", "{" + key + "}:fence");
            List<String> values = List.of(line.split(" ")[1], String.valueOf(fence));
            say(jedis.eval(WRITE, keys, values).equals(1L) ? "written" : "refused");
        }
    }

    /** Starts an application with the bean and its replacement. */
    private static AnnotationConfigApplicationContext spring() {
        AnnotationConfigApplicationContext spring = new AnnotationConfigApplicationContext();
        var server = new RedisStandaloneConfiguration(url.getHost(), url.getPort());
        spring.registerBean(RedisConnectionFactory.class, () -> new JedisConnectionFactory(server));
        spring.registerBean(
                StringRedisTemplate.class,
                () -> new StringRedisTemplate(spring.getBean(RedisConnectionFactory.class)));
        spring.registerBean(HoldfastClient.class, () -> client);
        spring.register(ThreadLock.class, InPlaceOfThreadLock.class);
        spring.refresh();
        return spring;
    }

    private static Section byHand(Step lock, Step unlock) {
        return work -> {
            lock.take();
            try {
                work.accept(0);
            } finally {
                unlock.take();
            }
        };
    }

    private static Section section(String way, String key, Duration lease) {
        LockOptions options = LockOptions.defaults().lease(lease).renew(true);
        HoldfastLock ours = client.lock(key, options);
        switch (way) {
            case "healing":
                HealingLock healing = new HealingLock(jedis, key, (int) lease.plusMillis(999).toSeconds());
                return byHand(healing::lock, healing::unlock);
            case "healing-replaced":
                return work -> InPlaceOfHealing.work(ours, work);
            case "thread":
                ThreadLock thread = Spring.CONTEXT.getBean(ThreadLock.class);
                return byHand(() -> thread.lock(key, lease), () -> thread.unlock(key));
            case "thread-replaced":
                return work -> Spring.CONTEXT.getBean(InPlaceOfThreadLock.class).work(key, options, work);
            case "reentrant":
                ReentrantRedisLock reentrant = new ReentrantRedisLock(jedis, key, lease.toMillis());
                return byHand(reentrant::lock, reentrant::unlock);
            case "reentrant-replaced":
                return work -> InPlaceOfReentrant.work(ours, work);
            default:
                throw new IllegalArgumentException(way);
        }
    }
}
