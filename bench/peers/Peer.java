import io.holdfast.Holdfast;
import io.holdfast.HoldfastLock;
import io.holdfast.LockOptions;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.config.Config;

/** For run.py: what peer.py is, for a lock of Holdfast or of Redisson. */
public final class Peer {
    /** Both with a lease of 10 s that nobody renews. */
    private interface Lock {
        void acquire();

        void release();
    }

    public static void main(String[] args) throws Exception {
        Lock lock = connect(args[0], "redis://" + args[1] + ":" + args[2]);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[1]);
            System.out.println(
                    words[0].equals("pairs") ? pairs(lock, count) : handoffs(lock, count));
        }
        Runtime.getRuntime().halt(0); // Redisson has threads that do not end
    }

    private static Lock connect(String kind, String url) {
        if (kind.equals("holdfast")) {
            LockOptions options = LockOptions.defaults().lease(Duration.ofSeconds(10));
            HoldfastLock lock = Holdfast.connect(url).lock("bench:java", options);
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
        var config = new Config();
        config.useSingleServer().setAddress(url);
        RLock lock = Redisson.create(config).getLock("bench:redisson");
        return new Lock() {
            @Override
            public void acquire() {
                lock.lock(10, TimeUnit.SECONDS);
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static double pairs(Lock lock, int count) {
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            lock.acquire();
            lock.release();
        }
        return (double) (System.nanoTime() - start) / count;
    }

    private static double handoffs(Lock lock, int count) throws InterruptedException {
        long[] took = new long[count];
        long[] released = new long[1];
        var turn = new Semaphore(0); // to begin to wait
        var held = new Semaphore(0);
        var waiter =
                new Thread(
                        () -> {
                            for (int i = 0; i < count; i++) {
                                turn.acquireUninterruptibly();
                                lock.acquire();
                                took[i] = System.nanoTime() - released[0];
                                lock.release();
                                held.release();
                            }
                        });
        waiter.start();
        for (int i = 0; i < count; i++) {
            lock.acquire();
            turn.release();
            Thread.sleep(ThreadLocalRandom.current().nextInt(50, 150)); // until it waits
            released[0] = System.nanoTime();
            lock.release();
            held.acquire();
        }
        waiter.join();
        Arrays.sort(took);
        return took[count / 2];
    }
}
