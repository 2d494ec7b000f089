package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;

/** What is begun without waiting for it. */
final class AsyncTest extends RedisTest {

    private static <T> T get(CompletableFuture<T> future) throws Exception {
        return future.get(20, TimeUnit.SECONDS);
    }

    private static <E extends Throwable> E failure(Class<E> type, CompletableFuture<?> future) {
        ExecutionException e = assertThrows(ExecutionException.class, () -> get(future));
        return assertInstanceOf(type, e.getCause());
    }

    private void assertNothingLeft() throws Exception {
        until(() -> !redis.exists(name) && queued() == 0);
        Thread.sleep(20); // and nothing comes back
        assertFalse(redis.exists(name));
        assertEquals(0, queued());
    }

    @Test
    void aThreadThatItsPoolCannotReplaceWaitsAllTheSame() throws Exception {
        ForkJoinPool full =
                new ForkJoinPool(
                        1,
                        ForkJoinPool.defaultForkJoinWorkerThreadFactory,
                        null,
                        false,
                        1,
                        1,
                        1,
                        null,
                        1,
                        TimeUnit.MINUTES);
        stranger.lock();
        var waiting =
                full.submit(
                        () -> {
                            lock.lock();
                            lock.unlock();
                            return true;
                        });
        until(() -> queued() == 1);
        stranger.unlock();
        assertTrue(waiting.get(20, TimeUnit.SECONDS));
        full.shutdown();
    }

    @Test
    void anActionThatRunsOnTheReadersThreadMayCloseTheClient() throws Exception {
        ClientOptions options = ClientOptions.defaults().executor(Runnable::run);
        HoldfastClient mine = Holdfast.connect(url(), options);
        lock.lock();
        CompletableFuture<Void> closed = mine.lock(name).acquireAsync().thenAccept(h -> mine.close());
        until(() -> queued() == 1);
        lock.unlock();
        get(closed);
        until(() -> !redis.exists(name));
    }

    @Test
    void aFreeLockIsAcquiredAndReleased() throws Exception {
        Hold hold = get(lock.acquireAsync());
        assertTrue(hold.isValid());
        assertTrue(redis.exists(name));
        hold.check();
        get(hold.releaseAsync());
        assertFalse(redis.exists(name));
        assertFalse(hold.isValid());
        failure(LockNotHeldException.class, hold.releaseAsync());
        hold.close();
    }

    @Test
    void everyOperationIsItsOwnOwner() throws Exception {
        Hold first = get(lock.acquireAsync());
        assertTrue(lock.inspect().ownerText().matches(".+:o\\d+"));
        assertFalse(lock.tryLock());
        CompletableFuture<Hold> second = lock.acquireAsync();
        until(() -> queued() == 1);
        assertFalse(second.isDone());
        first.close();
        assertNotEquals(first.fence(), get(second).fence());
        assertFalse(lock.isHeldByCurrentThread());
        get(second).close();
    }

    @Test
    void anOwnerThatWasGivenMayNest() throws Exception {
        Hold outer = stranger.acquire();
        Hold inner = get(stranger.acquireAsync());
        assertEquals(outer.fence(), inner.fence());
        assertTrue(stranger.isHeldByCurrentThread()); // by that owner
        assertEquals(inner.fence(), stranger.fence());
        get(outer.releaseAsync());
        inner.check();
        get(inner.releaseAsync());
        assertFalse(redis.exists(name));
    }

    @Test
    void aTimeoutIsToldInItsTimeAndLeavesNothingBehind() throws Exception {
        lock.lock();
        for (int millis : new int[] {0, 1, 80}) {
            long start = System.nanoTime();
            LockTimeoutException timeout =
                    failure(
                            LockTimeoutException.class,
                            stranger.acquireAsync(Duration.ofMillis(millis)));
            assertTrue(System.nanoTime() - start >= millis * 1_000_000L, "early");
            assertInTime(start);
            assertTrue(timeout.getMessage().contains(name.substring(0, 30)), timeout.getMessage());
            if (millis == 80) {
                assertTrue(
                        timeout.getMessage().contains("at last by 'holdfast@"),
                        timeout.getMessage());
            }
        }
        LockTimeoutException timeout =
                assertThrows(
                        LockTimeoutException.class, () -> stranger.acquire(Duration.ofMillis(80)));
        assertTrue(
                timeout.getMessage().contains("at last by 'holdfast@"), timeout.getMessage());
        assertEquals(0, queued());
        lock.unlock();
        assertNothingLeft();
        assertThrows(
                IllegalArgumentException.class, () -> lock.acquireAsync(Duration.ofMillis(-1)));
    }

    @Test
    void toCancelIsToLeaveTheQueue() throws Exception {
        lock.lock();
        CompletableFuture<Hold> canceled = stranger.acquireAsync();
        CompletableFuture<Hold> late = stranger.acquireAsync().orTimeout(50, TimeUnit.MILLISECONDS);
        CompletableFuture<Hold> next = lock.acquireAsync();
        until(() -> queued() == 3 || late.isDone());
        assertTrue(canceled.cancel(true));
        assertThrows(CancellationException.class, canceled::get);
        failure(TimeoutException.class, late);
        until(() -> queued() == 1);
        lock.unlock();
        get(get(next).releaseAsync());
        assertNothingLeft();
    }

    @Test
    void aCancelThatRacesTheGrantLeavesNothingBehind() throws Exception {
        for (int i = 0; i < 100; i++) {
            Hold first = lock.acquire();
            CompletableFuture<Hold> future = stranger.acquireAsync();
            if (i % 4 != 0) {
                until(() -> queued() == 1);
            }
            CompletableFuture<Void> released = first.releaseAsync();
            if (i % 3 == 0) {
                Thread.sleep(0, 100_000 * (i % 7));
            }
            if (!future.cancel(false)) {
                get(get(future).releaseAsync());
            }
            get(released);
            Hold next = lock.acquire(LONG);
            assertTrue(next.isValid());
            next.close();
        }
        assertNothingLeft();
    }

    @Test
    void aFutureThatIsCompletedByHandKeepsNothing() throws Exception {
        lock.lock();
        CompletableFuture<Hold> future = stranger.acquireAsync();
        future.complete(null);
        lock.unlock();
        assertNothingLeft();
    }

    @Test
    void whatDependsOnItMayWait() throws Exception {
        List<CompletableFuture<?>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            HoldfastLock second = client.lock(name + i % 2);
            all.add(
                    lock.acquireAsync()
                            .thenApply(
                                    outer -> {
                                        second.lock();
                                        second.unlock();
                                        outer.close();
                                        return null;
                                    }));
        }
        for (CompletableFuture<?> each : all) {
            get(each);
        }
        assertNothingLeft();
    }

    @Test
    void manyWaitOnFewThreads() throws Exception {
        Hold first = lock.acquire();
        int before = Thread.activeCount();
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            all.add(lock.acquireAsync().thenCompose(Hold::releaseAsync));
        }
        until(() -> queued() == 300);
        assertTrue(Thread.activeCount() - before < 10);
        first.close();
        for (CompletableFuture<Void> each : all) {
            get(each);
        }
        assertNothingLeft();
    }

    @Test
    void aLossIsToldByTheRelease() throws Exception {
        Hold hold = get(lock.acquireAsync());
        redis.del(name);
        failure(LockLostException.class, hold.releaseAsync());
        assertEquals(Optional.of(LossCause.GONE), hold.lossCause());
    }

    @Test
    void aClosedClientEndsWhatWasBegun() throws Exception {
        lock.lock();
        HoldfastClient other = SERVER.connect();
        Hold held = get(other.lock(name + "2").acquireAsync());
        List<CompletableFuture<Hold>> waiting = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            waiting.add(other.lock(name).acquireAsync());
        }
        until(() -> queued() == 10);
        HoldfastLock there = other.lock(name);
        long start = System.nanoTime();
        other.close();
        for (CompletableFuture<Hold> each : waiting) {
            failure(ClosedException.class, each);
        }
        assertInTime(start);
        assertEquals(0, queued());
        assertFalse(redis.exists(name + "2"));
        assertFalse(held.isValid());
        failure(ClosedException.class, held.releaseAsync());
        failure(ClosedException.class, there.acquireAsync());
        lock.unlock();
        assertNothingLeft();
    }

    // ------------------------------------------------------ When it cannot be asked

    /** What a try says, a future says too, and a call that would wait in the queue. */
    private static <E extends RuntimeException> void alike(
            Class<E> type, String reason, HoldfastLock lock) throws Exception {
        E tried = assertThrows(type, lock::tryLock);
        assertTrue(tried.getMessage().contains(reason), tried.getMessage());
        long start = System.nanoTime();
        E told = assertThrows(type, () -> lock.acquire(BRIEFLY));
        E later = failure(type, lock.acquireAsync(BRIEFLY));
        assertTrue(told.getMessage().contains(reason), told.getMessage());
        assertTrue(later.getMessage().contains(reason), later.getMessage());
        assertInTime(start);
    }

    private static final Duration BRIEFLY = Duration.ofMillis(300);
    private static final ClientOptions HASTY =
            ClientOptions.defaults()
                    .connectTimeout(BRIEFLY)
                    .commandTimeout(BRIEFLY)
                    .lazy(true);

    private static boolean isUsed(HoldfastLock lock) {
        try {
            lock.acquire().close();
            return true;
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        } catch (ConnectionFailedException | LockUnknownException e) {
            return false; // the machine stood still for longer than it waits
        }
    }

    /** The client looks at a connection that was idle for some ms before it asks on it. */
    private static void awaitTheLook() throws InterruptedException {
        Thread.sleep(100);
    }

    @Test
    void aServerThatWasStoppedIsNoLockThatOthersHold() throws Exception {
        RedisServer server = RedisServer.start();
        try (HoldfastClient other = Holdfast.connect(server.tcpUrl, HASTY)) {
            until(() -> isUsed(other.lock(name)));
            server.kill();
            awaitTheLook();
            alike(ConnectionFailedException.class, server.tcpUrl, other.lock(name));
        } finally {
            server.close();
        }
    }

    @Test
    void aPasswordThatWasChangedIsToldOf() throws Exception {
        try (RedisServer server = RedisServer.start();
                Jedis admin = server.look();
                HoldfastClient other = Holdfast.connect(server.tcpUrl)) {
            other.lock(name).acquire().close();
            admin.configSet("requirepass", "new");
            admin.auth("new");
            admin.sendCommand(Protocol.Command.CLIENT, "KILL", "TYPE", "normal");
            admin.sendCommand(Protocol.Command.CLIENT, "KILL", "TYPE", "pubsub");
            awaitTheLook();
            alike(AuthenticationException.class, "NOAUTH", other.lock(name));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"release", "renew", "inspect", "hand over"})
    void actionsThatAskWhileTheServerIsAwayKeepNoLossUntold(String what) throws Exception {
        Duration patience = Duration.ofSeconds(30);
        ClientOptions patient =
                ClientOptions.defaults().connectTimeout(patience).commandTimeout(patience);
        try (RedisServer server = RedisServer.start();
                HoldfastClient other = Holdfast.connect(server.tcpUrl, patient)) {
            CountDownLatch entered = new CountDownLatch(4);
            CountDownLatch away = new CountDownLatch(1);
            List<CompletableFuture<Void>> all = new ArrayList<>();
            LockOptions longer = LockOptions.defaults().lease(Duration.ofMinutes(1));
            for (int i = 0; i < 4; i++) {
                HoldfastLock each = other.lock(name + i, longer);
                Hold before = each.acquire();
                all.add(
                        each.acquireAsync()
                                .thenAccept(
                                        hold -> {
                                            entered.countDown();
                                            awaitQuietly(away);
                                            switch (what) {
                                                case "renew" -> hold.renew();
                                                case "inspect" -> each.inspect();
                                                case "hand over" -> hold.handOver();
                                                default -> hold.close();
                                            }
                                        }));
                until(() -> each.inspect().waiters() == 1);
                before.close();
            }
            entered.await();
            LockOptions brief = LockOptions.defaults().lease(Duration.ofSeconds(2)).renew(false);
            CompletableFuture<Hold> lost = new CompletableFuture<>();
            Hold hold = other.lock(name, brief).acquire();
            hold.onLost(lost::complete);
            server.stall();
            away.countDown();
            assertEquals(hold, get(lost));
            server.resume();
            for (CompletableFuture<Void> each : all) {
                get(each);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"hset", "set"})
    void aPermissionThatIsMissingIsNamed(String command) throws Exception {
        try (RedisServer server = RedisServer.start();
                Jedis admin = server.look()) {
            admin.aclSetUser("app", "on", ">secret", "~*", "&*", "+@all", "-" + command);
            String url = server.tcpUrl.replace("redis://", "redis://app:secret@");
            try (HoldfastClient other = Holdfast.connect(url)) {
                alike(ServerException.class, "missing: +" + command, other.lock(name));
            }
        }
    }

    // ------------------------------------------------------------ Where it is told

    @Test
    void aBusyCommonPoolKeepsNothingUntold() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        for (int i = 0; i < 2 * ForkJoinPool.getCommonPoolParallelism() + 2; i++) {
            ForkJoinPool.commonPool().execute(() -> awaitQuietly(end));
        }
        try {
            Hold hold = get(lock.acquireAsync());
            CompletableFuture<Hold> lost = new CompletableFuture<>();
            hold.onLost(lost::complete);
            redis.del(name);
            assertThrows(LockLostException.class, hold::check);
            get(lost);
            get(get(lock.acquireAsync()).releaseAsync());
        } finally {
            end.countDown();
        }
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void theUsersExecutorRunsWhatDependsOnAFuture() throws Exception {
        ExecutorService mine = Executors.newSingleThreadExecutor(work -> new Thread(work, "mine"));
        ClientOptions options = ClientOptions.defaults().executor(mine);
        try (HoldfastClient other = Holdfast.connect(url(), options)) {
            HoldfastLock there = other.lock(name);
            lock.lock();
            CompletableFuture<String> where =
                    there.acquireAsync()
                            .thenCompose(Hold::releaseAsync)
                            .thenApply(done -> Thread.currentThread().getName());
            lock.unlock();
            assertEquals("mine", get(where));
            mine.shutdown();
            get(get(there.acquireAsync()).releaseAsync());
        }
        assertThrows(
                NullPointerException.class, () -> ClientOptions.defaults().executor(null));
    }

    @Test
    void anErrorOfAnActionOnTheLibrarysThreadEndsNothing() throws Exception {
        ClientOptions options = ClientOptions.defaults().executor(Runnable::run);
        LockOptions brief = LockOptions.defaults().lease(Duration.ofMillis(100)).renew(false);
        try (HoldfastClient other = Holdfast.connect(url(), options)) {
            HoldfastLock there = other.lock(name, brief);
            CompletableFuture<Hold> told = new CompletableFuture<>();
            Hold hold = there.acquire();
            hold.onLost(
                    lost -> {
                        told.complete(lost);
                        throw new AssertionError("of the user");
                    });
            assertEquals(hold, get(told));
            get(get(there.acquireAsync()).releaseAsync());
        }
    }

    @Test
    void anExecutorThatGetsNoThreadLosesNoLock() throws Exception {
        ClientOptions options =
                ClientOptions.defaults()
                        .executor(
                                work -> {
                                    throw new OutOfMemoryError("unable to create native thread");
                                });
        try (HoldfastClient other = Holdfast.connect(url(), options)) {
            get(get(other.lock(name).acquireAsync()).releaseAsync());
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void actionsThatWaitForALockKeepNoOtherActionWaiting() throws Exception {
        Hold hold = get(lock.acquireAsync());
        HoldfastLock first = client.lock(name + "first");
        HoldfastLock second = client.lock(name + "second");
        Hold start = get(first.acquireAsync()); // else an action could run on this thread
        Hold end = get(second.acquireAsync());
        List<CompletableFuture<Void>> waiting =
                IntStream.range(0, 8)
                        .mapToObj(
                                each ->
                                        first.shared()
                                                .acquireAsync()
                                                .thenAccept(
                                                        free -> {
                                                            free.close();
                                                            lock.lock();
                                                            lock.unlock();
                                                        }))
                        .toList();
        CompletableFuture<Void> release =
                second.acquireAsync()
                        .thenAccept(
                                free -> {
                                    free.close();
                                    hold.close();
                                });
        start.close();
        until(() -> queued() >= 4); // as many as the pool has threads
        end.close();
        get(release);
        for (CompletableFuture<Void> each : waiting) {
            get(each);
        }
    }

    @Test
    void aGateIsEnteredOnTheExecutorOfItsClient() throws Exception {
        ExecutorService mine =
                Executors.newSingleThreadExecutor(
                        work -> {
                            Thread thread = new Thread(work, "mine");
                            thread.setDaemon(true);
                            return thread;
                        });
        ClientOptions options = ClientOptions.defaults().executor(mine);
        try (HoldfastClient other = Holdfast.connect(url(), options)) {
            Gate gate = other.gate(name, 2, Duration.ofMinutes(1));
            assertTrue(mine.submit(() -> gate.tryEnter()).get(20, TimeUnit.SECONDS));
            assertTrue(
                    mine.submit(() -> gate.tryEnter(Duration.ofSeconds(1)))
                            .get(20, TimeUnit.SECONDS));
            assertFalse(mine.submit(() -> gate.tryEnter()).get(20, TimeUnit.SECONDS));
        }
    }

    @Test
    void anErrorOfAnActionKeepsNoOtherActionBack() throws Exception {
        ClientOptions options = ClientOptions.defaults().executor(Runnable::run);
        LockOptions brief = LockOptions.defaults().lease(Duration.ofMillis(100)).renew(false);
        try (HoldfastClient other = Holdfast.connect(url(), options)) {
            Hold hold = other.lock(name, brief).acquire();
            CompletableFuture<Hold> told = new CompletableFuture<>();
            hold.onLost(
                    lost -> {
                        throw new AssertionError("of the user");
                    });
            hold.onLost(told::complete);
            assertEquals(hold, get(told));
        }
    }
}
