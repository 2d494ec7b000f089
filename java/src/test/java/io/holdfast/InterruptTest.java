package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Thread.interrupt() ends the waits that say so, and no others. */
final class InterruptTest extends RedisTest {
    enum Wait {
        LOCK_INTERRUPTIBLY {
            @Override
            void on(RedisLock lock) throws InterruptedException {
                lock.lockInterruptibly();
            }
        },
        TIMED_TRY_LOCK {
            @Override
            void on(RedisLock lock) throws InterruptedException {
                lock.tryLock(10, TimeUnit.SECONDS);
            }
        },
        ACQUIRE {
            @Override
            void on(RedisLock lock) throws InterruptedException {
                lock.acquire();
            }
        },
        TIMED_ACQUIRE {
            @Override
            void on(RedisLock lock) throws InterruptedException {
                lock.acquire(LONG);
            }
        };

        abstract void on(RedisLock lock) throws InterruptedException;
    }

    @AfterEach
    void clear() {
        Thread.interrupted();
    }

    @ParameterizedTest
    @EnumSource
    void anInterruptBeforeTheCallSendsNothing(Wait wait) {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> wait.on(lock));
        assertFalse(Thread.currentThread().isInterrupted());
        assertFalse(redis.exists(name));
    }

    @ParameterizedTest
    @EnumSource
    void anInterruptDuringTheWaitEndsItAndLeavesNothingBehind(Wait wait) throws Exception {
        lock.lock();
        for (int millis : new int[] {1, 20, 70}) {
            Async<Boolean> waiting =
                    Async.start(
                            () -> {
                                assertThrows(InterruptedException.class, () -> wait.on(stranger));
                                return Thread.currentThread().isInterrupted();
                            });
            Thread.sleep(millis); // at any moment
            assertTrue(waiting.isRunning());
            long start = System.nanoTime();
            waiting.thread.interrupt();
            assertFalse(waiting.get());
            assertTrue(secondsSince(start) < 1);
            assertEquals(0, queued());
        }
        lock.unlock();
        assertFalse(redis.exists(name));
    }

    @Test
    void aTryInVainTellsOfAnInterruptToo() throws Exception {
        lock.lock();
        Async<Boolean> trying =
                Async.start(
                        () -> {
                            Thread.currentThread().interrupt();
                            return stranger.tryLock(0, TimeUnit.SECONDS);
                        });
        assertThrows(InterruptedException.class, trying::get);
    }

    @Test
    void lockWaitsOnAndKeepsTheInterrupt() throws Exception {
        lock.lock();
        Async<Boolean> waiting =
                Async.start(
                        () -> {
                            stranger.lock();
                            return Thread.currentThread().isInterrupted();
                        });
        waiting.thread.interrupt();
        Thread.sleep(150); // nothing happens that could be waited for
        assertTrue(waiting.isRunning());
        lock.unlock();
        assertTrue(waiting.get());
    }

    @Test
    void tryLockAndUnlockAndCloseDoTheirWorkInAnInterruptedThread() throws Exception {
        Hold hold = lock.acquire();
        Thread.currentThread().interrupt();
        assertTrue(lock.tryLock());
        lock.lock();
        hold.check();
        lock.unlock();
        lock.unlock();
        hold.close();
        assertTrue(Thread.interrupted());
        assertFalse(redis.exists(name));
    }
}
