package io.holdfast;

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A program of its own, for {@link ProcessTest}, on one carrier: virtual threads ask a server that
 * answers nothing, in every way, while others use one that is well, and must not be slower. By
 * reflection, as this is compiled for a Java that has no virtual threads.
 */
final class Stalled {
    private static final Duration LONG = Duration.ofSeconds(20);
    private static final Duration LEASE = Duration.ofSeconds(2);
    private static final long SLOW_NANOS = 500_000_000;

    public static void main(String[] arguments) throws Exception {
        HoldfastClient well = Holdfast.connect(arguments[0]);
        HoldfastClient ill = Holdfast.connect(arguments[1]);
        Hold hold = ill.lock("held").acquire();
        Hold more = ill.lock("more").acquire();
        byte[] token = ill.lock("adopted").acquire().handOver();
        HoldfastLock free = ill.lock("free", LockOptions.defaults().lease(LEASE).renew(true));
        CountDownLatch locked = new CountDownLatch(1);
        CountDownLatch stalled = new CountDownLatch(1);
        Thread owner =
                start(
                        () -> {
                            ill.lock("owned").lock();
                            locked.countDown();
                            stalled.await();
                            ill.lock("owned").unlock();
                            return null;
                        });
        locked.await();
        kill("-STOP", arguments[2]);
        stalled.countDown();

        List<Callable<?>> asks =
                List.of(
                        () -> lockAndUnlock(free),
                        () -> free.tryLock(),
                        () -> free.acquire(LONG),
                        () -> free.acquire(),
                        () -> free.isLocked(),
                        () -> free.forceUnlock(),
                        () -> ill.lock("adopted").adopt(token),
                        () -> run(hold::check),
                        () -> run(hold::renew),
                        () -> run(() -> hold.extend(LONG)),
                        () -> run(more::close),
                        () -> Holdfast.connect(arguments[1]));
        List<Thread> asking = new ArrayList<>();
        for (Callable<?> ask : asks) {
            asking.add(start(ask));
        }
        AtomicLong slowest = new AtomicLong();
        for (int i = 0; i < 5; i++) {
            start(() -> use(well, slowest)).join();
        }
        for (int i = 2; i <= 3; i++) { // the acquires that take an interrupt
            long start = System.nanoTime();
            asking.get(i).interrupt();
            asking.get(i).join();
            slowest.accumulateAndGet(System.nanoTime() - start, Math::max);
        }
        if (asking.stream().noneMatch(Thread::isAlive)) {
            throw new AssertionError("nothing was asked while the server was stalled");
        }
        Thread closing = start(() -> run(ill::close));
        start(() -> use(well, slowest)).join();
        kill("-CONT", arguments[2]);
        closing.join();
        owner.join();
        for (Thread thread : asking) {
            thread.join();
        }
        well.close();
        System.out.print(slowest.get() < SLOW_NANOS ? "done" : "slow: " + slowest + " ns");
    }

    /** Some pairs on the server that is well. */
    private static Object use(HoldfastClient well, AtomicLong slowest) throws Exception {
        HoldfastLock lock = well.lock("stalled:" + ProcessHandle.current().pid());
        for (int i = 0; i < 20; i++) {
            long start = System.nanoTime();
            lock.acquire().close();
            lock.lock();
            lock.unlock();
            slowest.accumulateAndGet(System.nanoTime() - start, Math::max);
        }
        return null;
    }

    private static Object lockAndUnlock(HoldfastLock lock) {
        lock.lock();
        lock.unlock();
        return null;
    }

    private static Object run(Runnable work) {
        work.run();
        return null;
    }

    /** What it throws is that the server does not answer, or that the client was closed. */
    private static Thread start(Callable<?> work) throws Exception {
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        Runnable all =
                () -> {
                    try {
                        work.call();
                    } catch (HoldfastException
                            | ClosedException
                            | LockNotHeldException
                            | InterruptedException expected) {
                        return;
                    } catch (Exception e) {
                        throw new AssertionError(e);
                    }
                };
        return (Thread) start.invoke(null, all);
    }

    private static void kill(String signal, String pid) throws Exception {
        new ProcessBuilder("kill", signal, pid).start().waitFor();
    }
}
