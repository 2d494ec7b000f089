import io.holdfast.Hold;
import io.holdfast.HoldfastLock;
import java.time.Duration;
import java.util.function.Function;
import reactor.core.publisher.Mono;

final class MonoHolds {
    /** Subscribes to the work while it holds the lock. A subscriber that cancels leaves the queue. */
    static <T> Mono<T> withHold(
            HoldfastLock lock, Duration timeout, Function<Hold, Mono<T>> work) {
        Function<Hold, Mono<Void>> release =
                hold -> Mono.fromFuture(hold::releaseAsync, true); // a cancel does not stop it
        return Mono.usingWhen(
                        Mono.fromFuture(() -> lock.acquireAsync(timeout)),
                        work,
                        release,
                        (hold, failure) -> release.apply(hold),
                        release)
                .doOnDiscard(Hold.class, Hold::releaseAsync); // granted as it was cancelled
    }
}
