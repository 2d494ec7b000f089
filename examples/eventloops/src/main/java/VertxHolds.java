import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import io.vertx.core.Context;
import io.vertx.core.Future;
import java.time.Duration;
import java.util.function.Function;

final class VertxHolds {
    /** Starts the work on the context while it holds the lock. */
    static <T> Future<T> withHold(
            Context context, HoldfastLock lock, Duration timeout, Function<Hold, Future<T>> work) {
        return Future.fromCompletionStage(lock.acquireAsync(timeout), context)
                .compose(
                        hold ->
                                Future.succeededFuture(hold)
                                        .compose(work)
                                        .eventually(() -> released(hold, context)));
    }

    private static Future<Void> released(Hold hold, Context context) {
        return Future.fromCompletionStage(hold.releaseAsync(), context);
    }
}
