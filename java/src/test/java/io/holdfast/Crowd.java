package io.holdfast;

import java.lang.reflect.Method;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A program of its own, for {@link ProcessTest}: many virtual threads wait for one lock, and all
 * are served. By reflection, as this is compiled for a Java that has none.
 */
final class Crowd {
    private static int served; // not atomic: the lock is what protects it

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[2]);
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        CountDownLatch ended = new CountDownLatch(count);
        try (HoldfastClient client = Holdfast.connect(arguments[0])) {
            HoldfastLock lock = client.lock(arguments[1]);
            Hold first = lock.acquire();
            for (int i = 0; i < count; i++) {
                boolean inHand = i % 2 == 0;
                Runnable work =
                        () -> {
                            try {
                                if (inHand) {
                                    try (Hold hold = lock.acquire()) {
                                        served++;
                                    }
                                } else {
                                    lock.lock();
                                    served++;
                                    lock.unlock();
                                }
                            } catch (InterruptedException e) {
                                throw new AssertionError(e);
                            } finally {
                                ended.countDown();
                            }
                        };
                start.invoke(null, work);
            }
            while (lock.inspect().waiters() < count) {
                Thread.sleep(5);
            }
            // They wait, and yet the carriers are free.
            AtomicInteger ticks = new AtomicInteger();
            Runnable ticking =
                    () -> {
                        while (ticks.incrementAndGet() < 50) {
                            Thread.yield();
                        }
                    };
            start.invoke(null, ticking);
            while (ticks.get() < 50) {
                Thread.sleep(1);
            }
            first.close();
            ended.await();
            System.out.print("served " + served);
        }
    }
}
