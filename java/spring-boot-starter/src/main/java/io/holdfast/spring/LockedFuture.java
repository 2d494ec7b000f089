package io.holdfast.spring;

import io.holdfast.Hold;
import io.holdfast.LockNotHeldException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.function.UnaryOperator;

/**
 * The future that the caller of a {@link Locked} method with a future gets. It is done when the
 * method's future is done and the lock is released. A caller that ends it earlier, by a cancel or a
 * timeout, ends the wait for the lock, or the method's future.
 */
final class LockedFuture {
    /** Calls the method. */
    interface Body {
        CompletionStage<?> start(Hold hold) throws Throwable;
    }

    private final CompletableFuture<Object> result = new CompletableFuture<>();
    private final Body body;

    LockedFuture(Body body) {
        this.body = body;
    }

    /**
     * Waits for the lock without a thread.
     *
     * @param executor calls the method
     * @param told makes the exception for an acquire that failed; may ask the server
     */
    CompletableFuture<Object> acquire(
            CompletableFuture<Hold> acquiring, Executor executor, UnaryOperator<Throwable> told) {
        cancelWithResult(acquiring);
        acquiring.whenComplete(
                (hold, failure) -> {
                    try {
                        executor.execute(
                                () -> {
                                    if (hold != null) {
                                        enter(hold);
                                    } else {
                                        refuse(failure, told);
                                    }
                                });
                    } catch (RuntimeException | Error e) { // it is full, has ended or has no thread
                        if (hold != null) {
                            release(hold, null, e);
                        } else {
                            result.completeExceptionally(failure);
                        }
                    }
                });
        return result;
    }

    private void refuse(Throwable failure, UnaryOperator<Throwable> told) {
        try {
            result.completeExceptionally(told.apply(failure));
        } catch (RuntimeException | Error e) {
            result.completeExceptionally(e);
        }
    }

    /** Calls the method, which now has the lock. */
    CompletableFuture<Object> enter(Hold hold) {
        if (result.isDone()) { // cancelled just as the lock was acquired
            release(hold, null, null);
            return result;
        }
        CompletionStage<?> work;
        try {
            work = body.start(hold);
        } catch (Throwable e) {
            release(hold, null, e);
            return result;
        }
        if (work == null) {
            release(hold, null, null);
            return result;
        }
        if (work instanceof CompletableFuture<?> future) {
            cancelWithResult(future);
        }
        work.whenComplete((value, failure) -> release(hold, value, failure));
        return result;
    }

    /** Cancels a part of the work when the result ends; does nothing to a part that is done. */
    private void cancelWithResult(Future<?> part) {
        result.whenComplete((value, failure) -> part.cancel(true));
    }

    /** Releases the hold as a try statement does: the method's exception takes precedence over the release's. */
    private void release(Hold hold, Object value, Throwable failure) {
        hold.releaseAsync()
                .whenComplete(
                        (nothing, lost) -> {
                            Throwable ends = failure == null ? lostOrNull(lost) : failure;
                            if (ends == null) {
                                result.complete(value);
                                return;
                            }
                            if (failure != null && lostOrNull(lost) != null) {
                                failure.addSuppressed(lost);
                            }
                            result.completeExceptionally(ends);
                        });
    }

    /** Returns null if the hold was released, or if the method itself ended it. */
    private static Throwable lostOrNull(Throwable lost) {
        return lost == null || lost.getClass() == LockNotHeldException.class ? null : lost;
    }
}
