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
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/**
 * For run.py: N on standard input runs N pairs, lock and unlock; "N interruptible" does the same
 * with lockInterruptibly(). "N T shared" runs N pairs on each of T threads at once, which share one
 * lock object, and "N T own" gives each thread its own; these give up after 0.5 s and try again.
 * Prints the ns per pair.
 */
public final class Pair {
    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HoldfastClient client = Holdfast.connect("redis://" + args[0] + ":" + args[1])) {
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(10)).renew(false);
            HoldfastLock lock = client.lock("bench:java", options);
            for (String line; (line = input.readLine()) != null; ) {
                String[] words = line.split(" ");
                int count = Integer.parseInt(words[0]);
                int threads = words.length < 3 ? 1 : Integer.parseInt(words[1]);
                long start = System.nanoTime();
                if (words.length == 1) {
                    pairs(lock, count);
                } else if (words.length == 2) {
                    interruptiblePairs(lock, count);
                } else {
                    boolean shared = words[2].equals("shared");
                    contend(
                            () -> shared ? lock : client.lock("bench:java", options),
                            threads,
                            count);
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

    private static void interruptiblePairs(HoldfastLock lock, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            lock.lockInterruptibly();
            lock.unlock();
        }
    }

    private static Void timedPairs(HoldfastLock lock, int count) throws Exception {
        for (int i = 0; i < count; ) {
            if (lock.tryLock(500, TimeUnit.MILLISECONDS)) {
                lock.unlock();
                i++;
            }
        }
        return null;
    }

    private static void contend(Supplier<HoldfastLock> lock, int threads, int count)
            throws Exception {
        List<FutureTask<Void>> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            HoldfastLock mine = lock.get();
            FutureTask<Void> task = new FutureTask<>(() -> timedPairs(mine, count));
            new Thread(task).start();
            all.add(task);
        }
        for (FutureTask<Void> task : all) {
            task.get();
        }
    }
}
