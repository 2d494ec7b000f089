import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LimitDiffersException;
import io.holdfast.LockOptions;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.ThreadLocalRandom;

/**
 * The Java waiters of mixed.py, which starts this program and describes them.
 *
 * <p>Platform threads and, where there are any, virtual ones, of one client.
 */
public final class Waiters {
    private static String host;
    private static int port;
    private static int rounds;

    public static void main(String[] args) throws Exception {
        host = args[0];
        port = Integer.parseInt(args[1]);
        rounds = Integer.parseInt(args[3]);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HoldfastClient client = Holdfast.connect("redis://" + host + ":" + port + "?connect_timeout=20")) {
            HoldfastLock lock = client.lock(args[2]);
            checkLimit(client, args[2] + ":pool");
            Method startVirtual = null; // this also compiles and runs on Java 17
            if (Runtime.version().feature() >= 21) {
                startVirtual = Thread.class.getMethod("startVirtualThread", Runnable.class);
            }
            System.out.println("ready java" + (startVirtual != null ? " virtual" : ""));

            var waiters = new ArrayList<Thread>();
            for (String line; (line = input.readLine()) != null; ) {
                String kind = line.split(" ")[0];
                int number = Integer.parseInt(line.split(" ")[1]);
                Runnable work = () -> takeTurns(lock, kind, number);
                if (kind.equals("virtual")) {
                    waiters.add((Thread) startVirtual.invoke(null, work));
                } else {
                    Thread thread = new Thread(work);
                    thread.start();
                    waiters.add(thread);
                }
            }
            for (Thread waiter : waiters) {
                waiter.join();
            }
        }
    }

    private static void checkLimit(HoldfastClient client, String pool) throws Exception {
        try {
            client.lock(pool, LockOptions.defaults().permits(9)).shared().acquire(Duration.ZERO);
        } catch (LimitDiffersException differs) {
            if (differs.getMessage().contains("has 2 permits, and this acquire gives 9")) {
                return;
            }
            throw differs;
        }
        throw new AssertionError("9 permits passed a limit of 2");
    }

    private static void takeTurns(HoldfastLock lock, String kind, int number) {
        try (Socket redis = new Socket(host, port)) {
            redis.setTcpNoDelay(true);
            InputStream answers = new BufferedInputStream(redis.getInputStream());
            for (int i = 0; i < rounds; i++) {
                try (Hold hold = lock.acquire(Duration.ofSeconds(60))) {
                    long count = ask(redis, answers, "GET counter");
                    ask(redis, answers, "SET counter " + (count + 1));
                    ask(redis, answers, "RPUSH log " + kind + ":" + number + ":" + hold.fence());
                }
                Thread.sleep(0, ThreadLocalRandom.current().nextInt(1_000_000));
                Thread.sleep(ThreadLocalRandom.current().nextInt(3));
            }
        } catch (Throwable problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Sends a command that returns a number, "OK", or a number as text. */
    private static long ask(Socket redis, InputStream answers, String command) throws IOException {
        redis.getOutputStream().write((command + "\r\n").getBytes(StandardCharsets.UTF_8));
        String answer = readLine(answers);
        if (answer.startsWith("-")) {
            throw new IOException("redis: " + answer);
        }
        if (answer.startsWith("$")) {
            answer = ":" + readLine(answers);
        }
        return answer.startsWith(":") ? Long.parseLong(answer.substring(1)) : 0;
    }

    private static String readLine(InputStream answers) throws IOException {
        var line = new StringBuilder();
        for (int c; (c = answers.read()) != '\n'; ) {
            if (c < 0) {
                throw new IOException("redis has closed the connection");
            }
            line.append((char) c);
        }
        return line.toString().strip();
    }
}
