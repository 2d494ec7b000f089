package io.holdfast;

import io.holdfast.internal.core.Log;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.Function;
import java.util.function.Supplier;

/** Makes one call for {@link HoldfastLock#once}: waits for turns until there is a result. */
final class Once<T> {
    /** Waits for a turn. */
    interface Begin {
        Turn begin(OnceOptions<?> options) throws Exception;
    }

    /** The lock, for messages. */
    private final Object lock;

    private final OnceOptions<T> options;
    private final Begin begin;
    private final Function<OnceOptions<?>, CompletableFuture<Turn>> beginAsync;
    private final Supplier<Optional<Outcome>> look;
    private final long began = System.nanoTime();

    /** Takes the functions that ask the server: for a turn with given options, and for the record. */
    Once(
            Object lock,
            OnceOptions<T> options,
            Begin begin,
            Function<OnceOptions<?>, CompletableFuture<Turn>> beginAsync,
            Supplier<Optional<Outcome>> look) {
        this.lock = lock;
        this.options = options;
        this.begin = begin;
        this.beginAsync = beginAsync;
        this.look = look;
    }

    /** Returns the options of a caller that only waits for the turn. */
    static OnceOptions<byte[]> waiting(Duration timeout) {
        return OnceOptions.of(Duration.ofSeconds(10), Codec.BYTES).timeout(timeout);
    }

    /** The end of a call. */
    private record End(Outcome.State state, byte[] bytes, Duration ttl) {}

    T call(Callable<? extends T> call) throws Exception {
        Objects.requireNonNull(call, "call");
        Turn turn = begin();
        if (turn.result().isPresent()) {
            return options.codec().decode(turn.result().get());
        }
        T made;
        try {
            made = call.call();
        } catch (Throwable e) {
            end(turn, endOf(e), e);
            throw e;
        }
        byte[] bytes;
        T result;
        try {
            bytes = encoded(made);
            result = options.codec().decode(bytes);
        } catch (Throwable e) {
            end(turn, unknown(e), e);
            throw notKept(turn, made, ResultNotKeptException.Reason.ENCODING, e);
        }
        try {
            turn.finish(bytes, options.ttl());
        } catch (IllegalArgumentException e) {
            end(turn, unknown(e), e);
            throw notKept(turn, made, ResultNotKeptException.Reason.ENCODING, e);
        } catch (HoldfastException
                | LockNotHeldException
                | ClosedException
                | OutOfMemoryError e) {
            if (options.atMostOnce()) {
                throw notKept(turn, made, reason(e), e);
            }
            warn(e);
        }
        return result;
    }

    private Turn begin() throws Exception {
        for (OnceOptions<T> each = options; ; each = rest()) {
            try {
                return begin.begin(each);
            } catch (LockLostException e) {
                if (rest().timeout().isZero()) {
                    throw e;
                } // else try again: the call had not begun
            } catch (KeptErrorException e) {
                throw Once.<Exception>thrown(options.told(e));
            }
        }
    }

    /** Returns the options with the rest of the timeout. */
    private OnceOptions<T> rest() {
        Duration timeout = options.timeout();
        if (timeout.compareTo(Hold.FOREVER) >= 0) {
            return options;
        }
        Duration left = timeout.minusNanos(System.nanoTime() - began);
        return options.timeout(left.isNegative() ? Duration.ZERO : left);
    }

    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E thrown(Throwable failure) throws E {
        throw (E) failure;
    }

    private byte[] encoded(T result) throws Exception {
        return Objects.requireNonNull(
                options.codec().encode(result), "the codec made null of the result");
    }

    private End endOf(Throwable failure) {
        try {
            return switch (options.endOf(failure)) {
                case FAILED ->
                        new End(
                                Outcome.State.FAILED,
                                KeptErrorException.encoded(failure),
                                options.keepTtl());
                case RETRY -> new End(Outcome.State.RETRY, new byte[0], Duration.ZERO);
                default -> unknown(failure);
            };
        } catch (Throwable e) { // from the user's predicate, or from the failure's own methods
            if (e != failure) {
                failure.addSuppressed(e);
            }
            return unknown(failure);
        }
    }

    private static End unknown(Throwable failure) {
        String why = ResultNotKeptException.said(failure, Throwable::toString);
        return new End(Outcome.State.UNKNOWN, OnceOptions.shortened(why), Duration.ZERO);
    }

    private static void end(Turn turn, End end, Throwable failure) {
        try {
            turn.end(end.state, end.bytes, end.ttl);
        } catch (RuntimeException | OutOfMemoryError e) {
            failure.addSuppressed(e);
        }
    }

    private ResultNotKeptException notKept(
            Turn turn, T made, ResultNotKeptException.Reason reason, Throwable cause) {
        return new ResultNotKeptException(
                lock.toString(), look, turn.hold().fence(), made, reason, cause);
    }

    private static ResultNotKeptException.Reason reason(Throwable failure) {
        if (failure instanceof IllegalArgumentException) {
            return ResultNotKeptException.Reason.ENCODING;
        } else if (failure instanceof OutcomeSettledException) {
            return ResultNotKeptException.Reason.SETTLED;
        } else if (failure instanceof LockNotHeldException) {
            return ResultNotKeptException.Reason.LOST;
        } else if (failure instanceof ServerException) {
            return ResultNotKeptException.Reason.SERVER;
        }
        return ResultNotKeptException.Reason.UNREACHABLE;
    }

    private void warn(Throwable failure) {
        Log.log(
                Level.WARNING,
                "the result of once() of "
                        + lock
                        + " was not left for others: "
                        + failure.getMessage());
    }

    CompletableFuture<T> start(Supplier<? extends CompletionStage<? extends T>> call) {
        Objects.requireNonNull(call, "call");
        CompletableFuture<T> future = new CompletableFuture<>();
        begin(options, future, call);
        return future;
    }

    private void begin(
            OnceOptions<T> each,
            CompletableFuture<T> future,
            Supplier<? extends CompletionStage<? extends T>> call) {
        CompletableFuture<Turn> begun = beginAsync.apply(each);
        future.whenComplete((result, failure) -> begun.cancel(false)); // does nothing if it has ended
        begun.whenComplete(
                (turn, failure) -> {
                    if (bare(failure) instanceof LockLostException
                            && !future.isDone()
                            && !rest().timeout().isZero()) {
                        try {
                            begin(rest(), future, call); // the call had not begun
                        } catch (Throwable e) {
                            future.completeExceptionally(e);
                        }
                    } else if (failure != null) {
                        future.completeExceptionally(options.told(bare(failure)));
                    } else if (turn.result().isPresent()) {
                        complete(future, () -> options.codec().decode(turn.result().get()));
                    } else {
                        take(turn, future, call);
                    }
                });
    }

    private void take(
            Turn turn,
            CompletableFuture<T> future,
            Supplier<? extends CompletionStage<? extends T>> call) {
        if (future.isDone()) {
            turn.endAsync(Outcome.State.RETRY, new byte[0], Duration.ZERO);
            return;
        }
        CompletionStage<? extends T> stage;
        try {
            stage = Objects.requireNonNull(call.get(), "the call gave no future");
        } catch (Throwable e) {
            fail(turn, endOf(e), future, e);
            return;
        }
        stage.whenComplete(
                (result, failure) -> {
                    if (failure != null) {
                        Throwable bare = bare(failure);
                        fail(turn, endOf(bare), future, bare);
                    } else {
                        leave(turn, future, result);
                    }
                });
        future.whenComplete(
                (result, failure) -> {
                    if (future.isCancelled()) {
                        cancel(stage);
                    }
                });
    }

    private static void cancel(CompletionStage<?> stage) {
        try {
            stage.toCompletableFuture().cancel(true);
        } catch (UnsupportedOperationException e) {
            // The call goes on to its end.
        }
    }

    private void leave(Turn turn, CompletableFuture<T> future, T made) {
        T result;
        CompletableFuture<Void> left;
        try {
            byte[] bytes = encoded(made);
            result = options.codec().decode(bytes);
            left = turn.finishAsync(bytes, options.ttl());
        } catch (Throwable e) {
            Throwable failure = notKept(turn, made, ResultNotKeptException.Reason.ENCODING, e);
            fail(turn, unknown(e), future, failure);
            return;
        }
        left.whenComplete(
                (ended, failure) -> {
                    if (failure != null && options.atMostOnce()) {
                        Throwable bare = bare(failure);
                        future.completeExceptionally(notKept(turn, made, reason(bare), bare));
                        return;
                    }
                    if (failure != null) {
                        warn(bare(failure));
                    }
                    future.complete(result);
                });
    }

    private static void fail(
            Turn turn, End end, CompletableFuture<?> future, Throwable failure) {
        turn.endAsync(end.state, end.bytes, end.ttl)
                .whenComplete((released, e) -> future.completeExceptionally(failure));
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
