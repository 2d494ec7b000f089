import io.holdfast.Codec;
import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastException;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import io.holdfast.OnceOptions;
import io.holdfast.OutcomeUnknownException;
import java.io.BufferedInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;

/** The Java worker of run.py; worker.py describes how it is called. */
public final class Worker {
    private static final String TAKE =
            "if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end "
                    + "redis.call('SET', KEYS[1], ARGV[1]) "
                    + "redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";
    private static final AtomicInteger NUMBERS = new AtomicInteger();
    private static final int PERMITS = 2;

    /** Nanoseconds during which the workers ask for the same call. */
    private static final long ROUND = 2_000_000_000L;

    /** A paid result outlasts every step of a clock. */
    private static final Duration DAY = Duration.ofDays(1);

    /** Several masters: no results, and no shared holds. */
    private static boolean plain;

    private static volatile boolean stop;
    private static OutputStream history;
    private static int resourcePort;
    private static int locks;

    public static void main(String[] args) throws Exception {
        resourcePort = Integer.parseInt(args[1]);
        history = new FileOutputStream(args[2], true); // each write is one system call
        locks = Integer.parseInt(args[3]);
        plain = args[0].contains("+quorum:");
        HoldfastClient client = null;
        while (client == null) {
            try {
                client = Holdfast.connect(args[0]);
            } catch (HoldfastException notJustNow) {
                Thread.sleep(50);
            }
        }
        HoldfastClient shared = client;
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < 4; i++) {
            Thread thread = new Thread(() -> work(shared));
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) {
            // until it ends
        }
        stop = true;
        for (Thread thread : threads) {
            thread.join();
        }
        client.close();
    }

    private static void tell(String event, int op, String more) throws IOException {
        String line = "{\"e\": \"" + event + "\", \"op\": " + op + ", \"at\": " + System.nanoTime();
        history.write((line + more + "}\n").getBytes(StandardCharsets.UTF_8));
    }

    private static <T> T any(T[] choices) {
        return choices[ThreadLocalRandom.current().nextInt(choices.length)];
    }

    private static void work(HoldfastClient client) {
        try (Socket resource = new Socket("127.0.0.1", resourcePort)) {
            resource.setTcpNoDelay(true);
            InputStream answers = new BufferedInputStream(resource.getInputStream());
            while (!stop) {
                if (!plain && ThreadLocalRandom.current().nextInt(10) == 0) {
                    askOnce(client);
                    continue;
                }
                String key = "job:" + ThreadLocalRandom.current().nextInt(locks);
                int op = NUMBERS.incrementAndGet();
                int wait = any(new Integer[] {0, 200, 5000, 5000});
                LockOptions options =
                        ThreadLocalRandom.current().nextBoolean()
                                ? LockOptions.defaults().lease(Duration.ofSeconds(1)).renew(true)
                                : LockOptions.defaults().lease(Duration.ofMillis(400)).renew(false);
                String mode = "";
                int kind = plain ? 8 : ThreadLocalRandom.current().nextInt(8); // a quarter is shared
                if (kind < 2) {
                    mode = ", \"shared\": true";
                }
                if (kind == 1) {
                    key = "pool";
                    mode += ", \"permits\": " + PERMITS;
                    options = options.permits(PERMITS);
                }
                HoldfastLock lock = client.lock(key, options);
                lock = kind < 2 ? lock.shared() : lock;
                tell("try", op, ", \"k\": \"" + key + "\", \"wait\": " + wait / 1000.0 + mode);
                Hold hold;
                try {
                    hold = lock.acquire(Duration.ofMillis(wait));
                } catch (HoldfastException | IllegalMonitorStateException why) {
                    tell("not", op, ", \"why\": \"" + why.getClass().getSimpleName() + "\"");
                    continue;
                }
                tell("got", op, ", \"fence\": " + hold.fence());
                long until = System.nanoTime() + any(new Integer[] {0, 5, 20, 50, 300, 700}) * 1_000_000L;
                do {
                    long before = System.nanoTime();
                    long left = hold.remaining().toNanos();
                    if (left > 0) {
                        history.write(
                                ("{\"e\": \"sure\", \"op\": " + op + ", \"at\": " + before
                                        + ", \"until\": " + (before + left) + "}\n")
                                        .getBytes(StandardCharsets.UTF_8));
                    } else if (ThreadLocalRandom.current().nextBoolean()) {
                        break; // the others are careless, and the resource must notice
                    }
                    if (mode.isEmpty()) { // shared holders write nothing
                        long taken = write(resource, answers, key, hold.fence());
                        tell("write", op, ", \"taken\": " + taken);
                    }
                    Thread.sleep(ThreadLocalRandom.current().nextInt(20));
                } while (System.nanoTime() < until);
                tell("end", op, "");
                String how = "OK";
                try {
                    hold.close();
                } catch (HoldfastException | IllegalMonitorStateException why) {
                    how = why.getClass().getSimpleName();
                }
                tell("gone", op, ", \"how\": \"" + how + "\"");
            }
        } catch (Throwable problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Asks for a call that many workers want made at about the same time. */
    private static void askOnce(HoldfastClient client) throws Exception {
        int op = NUMBERS.incrementAndGet();
        boolean paid = ThreadLocalRandom.current().nextBoolean();
        String key = (paid ? "paid:" : "once:") + System.nanoTime() / ROUND;
        String made = "\"java-" + ProcessHandle.current().pid() + "-" + op + "\""; // JSON
        var options =
                OnceOptions.of(paid ? DAY : Duration.ofSeconds(60), Codec.UTF_8)
                        .timeout(Duration.ofSeconds(5))
                        .atMostOnce(paid);
        tell("try", op, ", \"k\": \"" + key + "\", \"wait\": 5");
        try {
            String result =
                    client.lock(key)
                            .once(
                                    options,
                                    () -> {
                                        tell("call", op, "");
                                        Thread.sleep(ThreadLocalRandom.current().nextInt(200));
                                        if (ThreadLocalRandom.current().nextInt(5) == 0) {
                                            throw new IllegalMonitorStateException("the next one");
                                        }
                                        tell("made", op, ", \"result\": " + made);
                                        return made;
                                    });
            tell("result", op, ", \"result\": " + result);
        } catch (HoldfastException | IllegalMonitorStateException why) {
            tell("not", op, ", \"why\": \"" + why.getClass().getSimpleName() + "\"");
            if (why instanceof OutcomeUnknownException unknown) {
                settle(unknown, op, made);
            }
        }
    }

    /** Settles a call whose outcome is unknown, or leaves it. */
    private static void settle(OutcomeUnknownException unknown, int op, String made)
            throws IOException {
        try {
            switch (ThreadLocalRandom.current().nextInt(3)) {
                case 0 -> {
                    tell("resolve", op, ", \"result\": " + made);
                    unknown.resolve(made.getBytes(StandardCharsets.UTF_8), DAY);
                }
                case 1 -> {
                    tell("retry", op, "");
                    unknown.retry();
                }
                default -> {}
            }
        } catch (HoldfastException | IllegalMonitorStateException notSettled) {
            // Another caller has settled it, or the server is away.
        }
    }

    private static long write(Socket resource, InputStream answers, String key, long fence)
            throws IOException {
        var command = new StringBuilder("*6\r\n");
        for (String word : new String[] {"EVAL", TAKE, "2", key, "log:" + key, "" + fence}) {
            command.append('$').append(word.length()).append("\r\n").append(word).append("\r\n");
        }
        resource.getOutputStream().write(command.toString().getBytes(StandardCharsets.UTF_8));
        var line = new StringBuilder();
        for (int c; (c = answers.read()) != '\n'; ) {
            if (c < 0) {
                throw new IOException("the resource has closed the connection");
            }
            line.append((char) c);
        }
        if (line.charAt(0) != ':') {
            throw new IOException("the resource: " + line);
        }
        return Long.parseLong(line.substring(1).strip());
    }
}
