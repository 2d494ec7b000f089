package io.holdfast;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * A program of its own, for {@link ProcessTest}: ends, without closing its client, while it holds
 * one lock, others wait for it, and yet others take and release a second one all the time. The last
 * argument says how: by a return, an exit, an exit without the client's own hook, or an exit with a
 * hook of the user's that closes the client; or by a signal that comes from outside.
 */
final class Departure {
    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler(
                (thread, e) -> {
                    if (!(e instanceof ClosedException)) {
                        e.printStackTrace();
                    }
                });
        boolean closes = !arguments[2].equals("off") && !arguments[2].equals("hook");
        ClientOptions options = ClientOptions.defaults().closeAtExit(closes);
        HoldfastClient client = Holdfast.connect(arguments[0], options);
        String name = arguments[1];
        LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(5)).renew(true);
        HoldfastLock lock = client.lock(name, brief);
        Hold hold = lock.acquire();
        List<Object> kept = new ArrayList<>(List.of(hold));
        hold.onLost(lost -> System.out.println("lost"));
        for (int i = 0; i < 4; i++) {
            daemon(() -> lock.lock());
            kept.add(lock.acquireAsync());
            HoldfastLock busy = client.lock(name + "busy", brief);
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
        if (arguments[2].equals("hook")) {
            Runtime.getRuntime().addShutdownHook(new Thread(client::close));
        }
        if (arguments[2].equals("term")) {
            new ProcessBuilder("kill", "" + ProcessHandle.current().pid()).start();
            Thread.sleep(60_000);
        }
        if (!arguments[2].equals("return")) {
            System.exit(0);
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }
}
