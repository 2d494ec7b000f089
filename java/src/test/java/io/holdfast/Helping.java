package io.holdfast;

import io.holdfast.testing.InMemoryHoldfast;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A program of its own, for {@link ProcessTest}, whose common pool has two threads: one is busy, and
 * the other holds a lock and waits for another. Meanwhile it must run no other task of the pool,
 * which would be inside its lock.
 */
final class Helping {
    /** How to wait for a lock, and leave it. */
    private interface Wait {
        void end(HoldfastClient client, HoldfastLock lock) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        InMemoryHoldfast memory = new InMemoryHoldfast();
        List<HoldfastClient> clients = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            clients.add(Holdfast.connect(arguments[0]));
        }
        helps(clients.get(0), clients.get(1), arguments[1]);
        helps(memory.connect(), memory.connect(), arguments[1]);
        clients.forEach(HoldfastClient::close);
        System.out.print("done");
    }

    private static void helps(HoldfastClient client, HoldfastClient other, String name)
            throws Exception {
        List<Wait> ways =
                List.of(
                        (mine, lock) -> {
                            lock.lock();
                            lock.unlock();
                        },
                        (mine, lock) -> {
                            lock.tryLock(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
                            lock.unlock();
                        },
                        (mine, lock) -> lock.begin(Hold.FOREVER).withdraw(),
                        (mine, lock) -> mine.locksAll(List.of(lock)).acquire().close());
        for (Wait way : ways) {
            if (isHelped(way, client, other, name)) {
                throw new AssertionError("another task was inside the lock: way " + ways.indexOf(way));
            }
        }
    }

    private static boolean isHelped(
            Wait way, HoldfastClient client, HoldfastClient other, String name) throws Exception {
        HoldfastLock lock = client.lock(name);
        HoldfastLock second = client.lock(name + 2);
        Hold held = other.lock(name + 2).acquire();
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch idle = new CountDownLatch(1);
        CountDownLatch tried = new CountDownLatch(1);
        CompletableFuture<Thread> waiting = new CompletableFuture<>();
        CompletableFuture<CompletableFuture<Boolean>> task = new CompletableFuture<>();
        CompletableFuture.runAsync(
                () -> {
                    begun.countDown();
                    await(idle);
                });
        await(begun);
        CompletableFuture<Void> all =
                CompletableFuture.runAsync(
                        () -> {
                            lock.lock();
                            task.complete(CompletableFuture.supplyAsync(() -> isEntered(lock)));
                            waiting.complete(Thread.currentThread());
                            try {
                                way.end(client, second);
                            } catch (Exception e) {
                                throw new AssertionError(e);
                            }
                            await(tried);
                            lock.unlock();
                        });
        Thread thread = waiting.get(20, TimeUnit.SECONDS);
        CompletableFuture<Boolean> inside = task.get(20, TimeUnit.SECONDS);
        while (second.inspect().waiters() < 1
                || !inside.isDone() && thread.getState() == Thread.State.RUNNABLE) {
            Thread.sleep(2);
        }
        held.close();
        idle.countDown();
        boolean entered = inside.get(20, TimeUnit.SECONDS);
        tried.countDown();
        all.get(20, TimeUnit.SECONDS);
        return entered;
    }

    private static boolean isEntered(HoldfastLock lock) {
        boolean entered = lock.tryLock();
        if (entered) {
            lock.unlock();
        }
        return entered;
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }
}
