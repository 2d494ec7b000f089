import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * For run.py: N on standard input runs N pairs, lock and unlock; TxN runs N on each of T threads at
 * once. ns per pair back.
 */
public final class Pair {
    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HoldfastClient client = Holdfast.connect("redis://" + args[0] + ":" + args[1])) {
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(10));
            HoldfastLock lock = client.lock("bench:java", options);
            for (String line; (line = input.readLine()) != null; ) {
                String[] numbers = line.split("x");
                int count = Integer.parseInt(numbers[numbers.length - 1]);
                int threads = numbers.length == 1 ? 1 : Integer.parseInt(numbers[0]);
                long start = System.nanoTime();
                if (threads == 1) {
                    pairs(lock, count);
                } else {
                    contend(lock, threads, count);
                }
                System.out.println((double) (System.nanoTime() - start) / count / threads);
            }
        }
    }

    private static void pairs(HoldfastLock lock, int count) {
        for (int i = 0; i < count; i++) {
            lock.lock();
            lock.unlock();
        }
    }

    private static void contend(HoldfastLock lock, int threads, int count) throws Exception {
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Thread thread = new Thread(() -> pairs(lock, count));
            thread.start();
            all.add(thread);
        }
        for (Thread thread : all) {
            thread.join();
        }
    }
}
