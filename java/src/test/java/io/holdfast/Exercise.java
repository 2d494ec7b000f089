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
                collectGarbageUntilWarnedOf("Hold[");
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
        LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(6)).renew(true);
        HoldfastLock lock = client.lock(name, brief);
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
        collectGarbageUntilWarnedOf("thread ");
        System.out.print(isRenewed(lock) ? "its lease grew" : "its lease ended");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static boolean isRenewed(HoldfastLock lock) throws InterruptedException {
        Duration left = lock.inspect().remaining();
        for (; !left.isZero(); Thread.sleep(50)) {
            Duration before = left;
            left = lock.inspect().remaining();
            if (left.compareTo(before) > 0) {
                return true;
            }
        }
        return false;
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
    private static void collectGarbageUntilWarnedOf(String what) throws InterruptedException {
        java.io.PrintStream err = System.err;
        var warned = new java.util.concurrent.CountDownLatch(1);
        System.setErr(
                new java.io.PrintStream(err) {
                    @Override
                    public void write(byte[] bytes, int from, int count) {
                        super.write(bytes, from, count);
                        if (new String(bytes, from, count).contains("WARNING: " + what)) {
                            warned.countDown();
                        }
                    }
                });
        do {
            System.gc();
        } while (!warned.await(10, TimeUnit.MILLISECONDS));
        Thread.sleep(100);
        err.flush();
    }
}
