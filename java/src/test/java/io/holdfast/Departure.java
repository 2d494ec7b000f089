package io.holdfast;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A program of its own, for {@link ProcessTest}: ends, without closing its client, while it holds
 * one lock, others wait for it, and yet others take and release a second one all the time.
 */
final class Departure {
    public static void main(String[] arguments) throws Exception {
        HoldfastClient client = Holdfast.connect(arguments[0]);
        String name = arguments[1];
        LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(1)).renew(true);
        RedisLock lock = client.lock(name, brief);
        Hold hold = lock.acquire();
        List<Object> kept = new ArrayList<>(List.of(hold));
        hold.onLost(lost -> System.out.println("lost"));
        for (int i = 0; i < 4; i++) {
            daemon(() -> lock.lock());
            kept.add(lock.acquireAsync());
            RedisLock busy = client.lock(name + "busy", brief);
            daemon(
                    () -> {
                        for (;;) {
                            busy.lock();
                            busy.unlock();
                        }
                    });
        }
        while (lock.inspect().waiters() < 8) {
            Thread.sleep(1);
        }
        System.out.print("done");
        if (arguments.length > 2) {
            System.exit(0);
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }
}
