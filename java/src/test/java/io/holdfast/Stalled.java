package io.holdfast;

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;

/**
 * A program of its own, for {@link ProcessTest}, on one carrier: virtual threads ask a server that
 * answers nothing, in every way, while others use one that is well, and must not wait for that. By
 * reflection, as this is compiled for a Java that has no virtual threads.
 */
final class Stalled {
    private static final Duration LONG = Duration.ofSeconds(30);
    private static final Duration LEASE = Duration.ofSeconds(2);
    /** While the server is stalled, no call ends for its own timeout. */
    private static final ClientOptions PATIENT =
            ClientOptions.defaults().connectTimeout(LONG).commandTimeout(LONG);

    public static void main(String[] arguments) throws Exception {
        HoldfastClient well = Holdfast.connect(arguments[0]);
        HoldfastClient ill = Holdfast.connect(arguments[1], PATIENT);
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
                        () -> Holdfast.connect(arguments[1], PATIENT));
        List<Thread> asking = new ArrayList<>();
        for (Callable<?> ask : asks) {
            asking.add(start(ask));
        }
        for (int i = 0; i < 5; i++) {
            start(() -> use(well)).join();
        }
        for (Thread interrupted : asking.subList(2, 4)) { // the acquires that take it
            interrupted.interrupt();
            interrupted.join();
        }
        long waiting = asking.stream().filter(Thread::isAlive).count();
        Thread closing = start(() -> run(ill::close));
        start(() -> use(well)).join();
        boolean closes = closing.isAlive();
        kill("-CONT", arguments[2]);
        closing.join();
        owner.join();
        for (Thread thread : asking) {
            thread.join();
        }
        well.close();
        System.out.print(waiting + " wait, " + (closes ? "and it closes" : "and it is closed"));
    }

    /** Some pairs on the server that is well. */
    private static Object use(HoldfastClient well) throws Exception {
        HoldfastLock lock = well.lock("stalled:" + ProcessHandle.current().pid());
        for (int i = 0; i < 20; i++) {
            lock.acquire().close();
            lock.lock();
            lock.unlock();
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
