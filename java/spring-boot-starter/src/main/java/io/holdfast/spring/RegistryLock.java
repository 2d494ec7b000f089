package io.holdfast.spring;

import io.holdfast.HoldfastLock;
import io.holdfast.LockLostException;
import io.holdfast.LockNotHeldException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock of the registry. Spring's leaders check by a nested acquire whether they still
 * lead: an acquire that cannot nest, because the outer hold was lost, must not succeed.
 */
final class RegistryLock implements Lock {
    private final HoldfastLock lock;

    RegistryLock(HoldfastLock lock) {
        this.lock = lock;
    }

    private interface Attempt<E extends Exception> {
        boolean take() throws E;
    }

    private <E extends Exception> boolean take(Attempt<E> attempt) throws E {
        for (; ; ) {
            long outer = outerFence();
            if (!attempt.take()) {
                return false;
            }
            if (outer == 0 || lock.fence() == outer) {
                return true;
            }
            lock.unlock(); // then see whether the outer hold was lost, or released elsewhere
        }
    }

    /**
     * Returns the fence of this thread's hold; 0: it has none. A hold that the thread has lost is reported
     * once.
     */
    private long outerFence() {
        if (lock.getHoldCount() > 0) {
            return lock.fence();
        }
        try {
            lock.unlock();
        } catch (LockLostException e) {
            throw e;
        } catch (LockNotHeldException e) {
            // The thread has not acquired the lock, or has unlocked it.
        }
        return 0;
    }

    @Override
    public void lock() {
        take(
                () -> {
                    lock.lock();
                    return true;
                });
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        take(
                () -> {
                    lock.lockInterruptibly();
                    return true;
                });
    }

    @Override
    public boolean tryLock() {
        return take(lock::tryLock);
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return take(() -> lock.tryLock(time, unit));
    }

    @Override
    public void unlock() {
        lock.unlock();
    }

    @Override
    public Condition newCondition() {
        return lock.newCondition();
    }

    /** Returns a text for people to read. */
    @Override
    public String toString() {
        return lock.toString();
    }
}
