package io.holdfast;

import io.holdfast.internal.core.Log;
import io.holdfast.internal.core.Millis;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;

/** {@link HoldfastLock#once}: takes turns until there is a result. The lock is for messages. */
final class Once {
    private Once() {}

    static <T> T call(
            Object lock,
            Callable<Turn> begin,
            Duration ttl,
            Codec<T> codec,
            Callable<? extends T> call)
            throws Exception {
        Millis.ttl(ttl);
        Objects.requireNonNull(codec, "codec");
        Objects.requireNonNull(call, "call");
        Turn turn = begin.call();
        if (turn.result().isPresent()) {
            return codec.decode(turn.result().get());
        }
        try {
            byte[] bytes = encoded(codec, call.call());
            T result = codec.decode(bytes);
            try {
                turn.finish(bytes, ttl);
            } catch (HoldfastException | LockNotHeldException | ClosedException e) {
                warn(lock, e);
            }
            return result;
        } catch (Throwable e) {
            passOn(turn, e);
            throw e;
        }
    }

    private static <T> byte[] encoded(Codec<T> codec, T result) throws Exception {
        return Objects.requireNonNull(codec.encode(result), "the codec made null of the result");
    }

    private static void passOn(Turn turn, Throwable failure) {
        try {
            turn.hold().close();
        } catch (RuntimeException e) {
            failure.addSuppressed(e);
        }
    }

    private static void warn(Object lock, Throwable failure) {
        Log.log(
                Level.WARNING,
                "the result of once() of "
                        + lock
                        + " was not left for others: "
                        + failure.getMessage());
    }

    static <T> CompletableFuture<T> start(
            Object lock,
            Supplier<CompletableFuture<Turn>> begin,
            Duration ttl,
            Codec<T> codec,
            Supplier<? extends CompletionStage<? extends T>> call) {
        Millis.ttl(ttl);
        Objects.requireNonNull(codec, "codec");
        Objects.requireNonNull(call, "call");
        CompletableFuture<T> future = new CompletableFuture<>();
        CompletableFuture<Turn> begun = begin.get();
        future.whenComplete((result, failure) -> begun.cancel(false)); // unless it has ended
        begun.whenComplete(
                (turn, failure) -> {
                    if (failure != null) {
                        future.completeExceptionally(failure);
                    } else if (turn.result().isPresent()) {
                        complete(future, () -> codec.decode(turn.result().get()));
                    } else {
                        take(new Taken<>(lock, ttl, codec, turn, future), call);
                    }
                });
        return future;
    }

    /** A turn that was taken for a future. */
    private record Taken<T>(
            Object lock,
            Duration ttl,
            Codec<T> codec,
            Turn turn,
            CompletableFuture<T> future) {}

    private static <T> void take(
            Taken<T> taken, Supplier<? extends CompletionStage<? extends T>> call) {
        if (taken.future.isDone()) {
            taken.turn.hold().releaseAsync();
            return;
        }
        CompletionStage<? extends T> stage;
        try {
            stage = Objects.requireNonNull(call.get(), "the call gave no future");
        } catch (Throwable e) {
            fail(taken, e);
            return;
        }
        stage.whenComplete(
                (result, failure) -> {
                    if (failure != null) {
                        fail(taken, bare(failure));
                    } else {
                        leave(taken, result);
                    }
                });
        taken.future.whenComplete(
                (result, failure) -> {
                    if (taken.future.isCancelled()) {
                        cancel(stage);
                    }
                });
    }

    private static void cancel(CompletionStage<?> stage) {
        try {
            stage.toCompletableFuture().cancel(true);
        } catch (UnsupportedOperationException e) {
            // It goes on to its end.
        }
    }

    private static <T> void leave(Taken<T> taken, T made) {
        T result;
        CompletableFuture<Void> left;
        try {
            byte[] bytes = encoded(taken.codec, made);
            result = taken.codec.decode(bytes);
            left = taken.turn.finishAsync(bytes, taken.ttl);
        } catch (Throwable e) {
            fail(taken, e);
            return;
        }
        left.whenComplete(
                (ended, failure) -> {
                    if (failure != null) {
                        warn(taken.lock, bare(failure));
                    }
                    taken.future.complete(result);
                });
    }

    private static void fail(Taken<?> taken, Throwable failure) {
        taken.turn
                .hold()
                .releaseAsync()
                .whenComplete((released, e) -> taken.future.completeExceptionally(failure));
    }

    private static Throwable bare(Throwable failure) {
        return failure instanceof CompletionException && failure.getCause() != null
                ? failure.getCause()
                : failure;
    }

    private static <T> void complete(CompletableFuture<T> future, Callable<T> work) {
        try {
            future.complete(work.call());
        } catch (Throwable e) {
            future.completeExceptionally(e);
        }
    }
}
