import io.holdfast.Holdfast
import io.holdfast.LockDeadlockException
import io.holdfast.LockTimeoutException
import io.holdfast.testing.TestRedis
import java.time.Duration
import java.util.concurrent.Executors
import java.util.concurrent.atomic.AtomicInteger
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.asCoroutineDispatcher
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.yield
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows

/** Coroutines that take turns on one thread. */
class CoroutineTest {
    private val wait = Duration.ofSeconds(30)

    @Test
    fun coroutinesOfOneThreadExcludeEachOther() = onOneThread { lock ->
        val inside = AtomicInteger()
        val fences = (1..5).map {
            async {
                lock.withHold(wait) { hold ->
                    assertEquals(1, inside.incrementAndGet())
                    repeat(10) { yield() }
                    inside.decrementAndGet()
                    hold.fence()
                }
            }
        }.awaitAll()
        assertEquals(5, fences.distinct().size)
        assertFalse(lock.isLocked)
    }

    @Test
    fun aCancelledCoroutineLeavesTheQueueOrReleases() = onOneThread { lock ->
        val entered = CompletableDeferred<Unit>()
        val holder = launch {
            lock.withHold(wait) {
                entered.complete(Unit)
                CompletableDeferred<Unit>().await()
            }
        }
        entered.await()
        val waiter = launch { lock.withHold(wait) {} }
        while (lock.inspect().waiters() == 0L) yield()
        waiter.cancelAndJoin()
        while (lock.inspect().waiters() > 0L) yield() // the queue is left in the background
        assertThrows<LockTimeoutException> { lock.withHold(Duration.ZERO) {} }
        holder.cancelAndJoin()
        assertFalse(lock.isLocked)
    }

    @Test
    fun theBlockingCallIsRefusedAndLetsNoSecondIn() = onOneThread { lock ->
        val first = lock.acquire()
        assertThrows<LockDeadlockException> { lock.acquire() }
        assertThrows<LockDeadlockException> { lock.acquire(wait) }
        assertFalse(lock.tryLock())
        first.close()
    }

    private fun onOneThread(
        test: suspend kotlinx.coroutines.CoroutineScope.(io.holdfast.HoldfastLock) -> Unit
    ) {
        TestRedis.start().use { redis ->
            Holdfast.connect(redis.url()).use { client ->
                Executors.newSingleThreadExecutor().asCoroutineDispatcher().use { loop ->
                    runBlocking(loop) { test(client.lock("turns")) }
                }
            }
        }
    }
}
