package io.holdfast;

import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** A program of its own, for {@link LoadingTest}: calls everything, and prints what it came to. */
final class Exercise {
    public static void main(String[] arguments) throws Exception {
        Thread.currentThread().interrupt(); // the library is loaded all the same
        Holdfast.version();
        if (!Thread.interrupted()) {
            throw new AssertionError("the interrupt is lost");
        }
        try (HoldfastClient client = Holdfast.connect(arguments[0], options())) {
            if (arguments.length > 2) {
                lockAndEnd(client, arguments[1], arguments[2].equals("virtual"));
            } else if (arguments.length > 1) {
                client.lock(arguments[1]).acquire();
                collectGarbageUntilWarned();
                Runtime.getRuntime().halt(0); // without close, which would release it
            }
            exercise(client, client.lock("test:" + UUID.randomUUID()));
        }
        try {
            Holdfast.connect("redis://stranger:nothing@[::1");
        } catch (IllegalArgumentException expected) {
            System.out.print("done");
        }
    }

    private static ClientOptions options() {
        return ClientOptions.defaults()
                .connectTimeout(Duration.ofSeconds(5))
                .commandTimeout(Duration.ofSeconds(5));
    }

    private static void exercise(HoldfastClient client, HoldfastLock lock) throws Exception {
        try (Hold hold = lock.acquire(Duration.ofSeconds(1))) {
            hold.check();
            hold.renew();
            hold.extend(Duration.ofSeconds(1));
            hold.remaining();
            hold.isValid();
            lock.inspect();
            HoldfastLock stranger = client.lock(lock.toString(), LockOptions.defaults().owner("x"));
            stranger.tryLock();
            stranger.tryLock(10, TimeUnit.MILLISECONDS);
            stranger.forceUnlock();
        }
        lock.lock();
        lock.getHoldCount();
        lock.unlock();
        try {
            lock.unlock();
        } catch (LockNotHeldException expected) {
            lock.tryLock(1, TimeUnit.SECONDS);
        }
    }

    /** One thread unlocks what it locked, and one does not. */
    private static void lockAndEnd(HoldfastClient client, String name, boolean virtual)
            throws Exception {
        Duration lease = Duration.ofMillis(300);
        HoldfastLock lock = client.lock(name, LockOptions.defaults().lease(lease).renew(true));
        Thread careful = start(virtual, () -> exerciseLock(client.lock(name + "2")));
        Thread careless =
                start(
                        virtual,
                        () -> {
                            Thread.currentThread().setName("careless");
                            lock.lock();
                        });
        careful.join();
        careless.join();
        collectGarbageUntilWarned();
        Thread.sleep(2 * lease.toMillis()); // it is renewed meanwhile
        System.out.print(lock.isLocked() ? "still held" : "not held");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static void exerciseLock(HoldfastLock lock) {
        lock.lock();
        lock.unlock();
    }

    private static Thread start(boolean virtual, Runnable work) throws Exception {
        if (virtual) { // by reflection: this is compiled for a Java that has none
            return (Thread)
                    Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
        }
        Thread thread = new Thread(work);
        thread.start();
        return thread;
    }

    /** The warning goes to System.err. */
    private static void collectGarbageUntilWarned() throws InterruptedException {
        java.io.PrintStream err = System.err;
        var warned = new java.util.concurrent.CountDownLatch(1);
        System.setErr(
                new java.io.PrintStream(err) {
                    @Override
                    public void write(byte[] bytes, int from, int count) {
                        super.write(bytes, from, count);
                        warned.countDown();
                    }
                });
        do {
            System.gc();
        } while (!warned.await(10, TimeUnit.MILLISECONDS));
        Thread.sleep(100);
        err.flush();
    }
}
