import io.holdfast.Hold
import io.holdfast.HoldfastLock
import java.time.Duration
import kotlin.coroutines.resumeWithException
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.future.await
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext

/** Waits for the lock without a thread. A coroutine that is cancelled leaves the queue. */
suspend fun HoldfastLock.hold(timeout: Duration): Hold = suspendCancellableCoroutine { waiting ->
    val acquiring = acquireAsync(timeout)
    waiting.invokeOnCancellation { acquiring.cancel(true) }
    acquiring.whenComplete { hold, failure ->
        if (failure == null) {
            waiting.resume(hold) { _, unwanted, _ -> unwanted.releaseAsync() }
        } else {
            waiting.resumeWithException(failure)
        }
    }
}

/** Runs the block while it holds the lock, and releases it, even if the coroutine is cancelled. */
suspend fun <T> HoldfastLock.withHold(timeout: Duration, block: suspend (Hold) -> T): T {
    val hold = hold(timeout)
    val result = try {
        block(hold)
    } catch (failure: Throwable) {
        withContext(NonCancellable) {
            runCatching { hold.releaseAsync().await() }.exceptionOrNull()?.let(failure::addSuppressed)
        }
        throw failure
    }
    withContext(NonCancellable) { hold.releaseAsync().await() }
    return result
}
