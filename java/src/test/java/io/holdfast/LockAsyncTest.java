package io.holdfast;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

final class LockAsyncTest extends LockBehaviour {

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        try {
            return future.get(20, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw (RuntimeException) e.getCause();
        }
    }

    @Override
    Hold acquire(HoldfastLock lock) throws Exception {
        return get(lock.acquireAsync());
    }

    @Override
    Hold acquire(HoldfastLock lock, Duration timeout) throws Exception {
        return get(lock.acquireAsync(timeout));
    }

    @Override
    void release(Hold hold) throws Exception {
        get(hold.releaseAsync());
    }

    /** An operation is its own owner, unless one is given. */
    @Override
    HoldfastLock nestable() {
        return client.lock(name, LockOptions.defaults().owner("me"));
    }
}
