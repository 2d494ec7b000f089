import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.LockTimeoutException;
import java.time.Duration;

public final class Quickstart {
    public static void main(String[] args) throws InterruptedException {
        String url = args.length > 0 ? args[0] : "redis://localhost";
        try (HoldfastClient client = Holdfast.connect(url)) {
            HoldfastLock lock = client.lock("stock");
            try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
                System.out.println("the lock is ours; fence " + hold.fence());
            } catch (LockTimeoutException busy) {
                System.out.println("others kept the lock for 5 seconds");
            }
        }
    }
}
