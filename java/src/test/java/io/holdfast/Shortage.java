package io.holdfast;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;

/**
 * A program of its own, for {@link ProcessTest}: for a while it has no room for the stack of another
 * thread, and a virtual thread is given the turn of a call all the same.
 */
final class Shortage {
    private static final Duration LONG = Duration.ofSeconds(20);

    public static void main(String[] arguments) throws Exception {
        try (HoldfastClient client = Holdfast.connect(arguments[0]);
                HoldfastClient late = Holdfast.connect(arguments[0])) {
            HoldfastLock lock = client.lock(arguments[1]);
            takeTurn(lock); // all that it needs is loaded
            limit(room() + (100 << 20));
            CountDownLatch over = new CountDownLatch(1);
            try {
                takeThreads(over);
                takeTurn(lock);
                lockInVain(late);
                int before = descriptors();
                lockInVain(late);
                if (descriptors() > before) {
                    throw new AssertionError("each lock in vain costs a descriptor");
                }
            } finally {
                limit(-1);
                over.countDown();
            }
            late.lock(arguments[1]).acquire(LONG).close();
        }
        System.out.print("done");
    }

    private static void takeTurn(HoldfastLock lock) throws Exception {
        FutureTask<Void> task =
                new FutureTask<>(
                        () -> {
                            OnceOptions<String> options =
                                    OnceOptions.of(LONG, Codec.UTF_8).atMostOnce(true);
                            lock.begin(options).withdraw();
                            return null;
                        });
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        task.get();
    }

    /** Also the stacks of threads that have ended. */
    private static void takeThreads(CountDownLatch over) {
        try {
            for (;;) {
                Thread taken = new Thread(() -> await(over));
                taken.setDaemon(true);
                taken.start();
            }
        } catch (OutOfMemoryError expected) {
            return;
        }
    }

    private static void await(CountDownLatch over) {
        try {
            over.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** It needs a thread. */
    private static void lockInVain(HoldfastClient client) {
        try {
            client.lock("{none}");
        } catch (OutOfMemoryError expected) {
            return;
        }
        throw new AssertionError("a thread was to be had");
    }

    private static int descriptors() {
        return new File("/proc/self/fd").list().length;
    }

    /** The bytes of address space in use. */
    private static long room() throws Exception {
        String pages = Files.readString(Path.of("/proc/self/statm")).split(" ")[0];
        return Long.parseLong(pages) * 4096;
    }

    private static void limit(long bytes) throws Exception {
        new ProcessBuilder(
                        "prlimit",
                        "--pid",
                        "" + ProcessHandle.current().pid(),
                        "--as=" + (bytes < 0 ? "unlimited" : bytes) + ":")
                .inheritIO()
                .start()
                .waitFor();
    }
}
