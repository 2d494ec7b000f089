import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** For run.py: N on standard input runs N pairs, lock and unlock; ns per pair back. */
public final class Pair {
    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HoldfastClient client = Holdfast.connect("redis://" + args[0] + ":" + args[1])) {
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(10));
            HoldfastLock lock = client.lock("bench:java", options);
            for (String line; (line = input.readLine()) != null; ) {
                int count = Integer.parseInt(line);
                long start = System.nanoTime();
                for (int i = 0; i < count; i++) {
                    lock.lock();
                    lock.unlock();
                }
                System.out.println((double) (System.nanoTime() - start) / count);
            }
        }
    }
}
