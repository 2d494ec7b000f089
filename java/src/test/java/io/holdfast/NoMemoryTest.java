package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** The heap is full where a lock has just been acquired, or is given up: it has a caller, or is free. */
final class NoMemoryTest extends RedisTest {
    /** Of a lock that would stand for ever. */
    private static final LockOptions OPTIONS =
            LockOptions.defaults().neverExpires().reentrant(false);

    private static Object get(Object of, String field) throws ReflectiveOperationException {
        return field(of, field).get(of);
    }

    private static void set(Object of, String field, Object value)
            throws ReflectiveOperationException {
        field(of, field).set(of, value);
    }

    private static Field field(Object of, String name) throws ReflectiveOperationException {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /** It has no room for more, and then nor has the table of what is under way. */
    private static final class Full<K, V> extends ConcurrentHashMap<K, V> {
        private static final long serialVersionUID = 1;

        private final transient Object completions;

        Full(Object completions) {
            this.completions = completions;
        }

        @Override
        public V put(K key, V value) {
            throw new OutOfMemoryError();
        }

        @Override
        public V computeIfAbsent(K key, Function<? super K, ? extends V> make) {
            try {
                set(completions, "operations", new Full<>(null));
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
            throw new OutOfMemoryError();
        }
    }

    @Test
    void aHoldThatIsNotNotedForUnlockIsGivenBack() throws Exception {
        HoldfastLock mine = client.lock(name, OPTIONS);
        set(mine, "started", new Full<>(get(get(mine, "client"), "completions")));
        ForkJoinPool pool = new ForkJoinPool(1);
        try {
            Callable<Boolean> locking = mine::tryLock;
            Throwable failed =
                    assertThrows(
                            ExecutionException.class,
                            () -> pool.submit(locking).get(20, TimeUnit.SECONDS));
            while (failed.getCause() != null) { // the pool wraps it
                failed = failed.getCause();
            }
            assertEquals(OutOfMemoryError.class, failed.getClass());
            Async.until(() -> !redis.exists(name));
        } finally {
            pool.shutdown();
        }
    }

    @Test
    void aHoldThatIsNotNotedWhereItsThreadWaitedIsGivenBack() throws Exception {
        HoldfastLock mine = client.lock(name, OPTIONS);
        set(mine, "started", new Full<>(get(get(mine, "client"), "completions")));
        assertThrows(OutOfMemoryError.class, mine::tryLock);
        Async.until(() -> !redis.exists(name));
    }

    @Test
    void aBrakeThatIsNotPutBackCostsNoHold() throws Exception {
        HoldfastLock mine = client.lock(name, OPTIONS);
        set(
                get(mine, "client"),
                "brakes",
                new ConcurrentLinkedQueue<Object>() {
                    private static final long serialVersionUID = 1;

                    @Override
                    public boolean add(Object brake) {
                        throw new OutOfMemoryError();
                    }
                });
        try {
            mine.acquire().close();
            mine.lockInterruptibly();
            mine.unlock();
        } catch (OutOfMemoryError e) { // which would end all tests
            throw new AssertionError(e);
        }
        assertFalse(redis.exists(name));
    }

    @Test
    void whatAHoldIsFoundByIsMadeBeforeItIsAcquired() throws Exception {
        HoldfastLock mine = client.lock(name, OPTIONS);
        HoldfastLock named = client.lock(name, OPTIONS.reentrant(true).owner("me"));
        for (HoldfastLock each : new HoldfastLock[] {mine, named}) {
            set(each, "name", null); // as if there were no memory
        }
        assertThrows(NullPointerException.class, mine::acquire);
        Async.until(() -> !redis.exists(name));
        assertThrows(NullPointerException.class, named::acquireAsync);
        Async.until(() -> !redis.exists(name));
    }

    /** Lets the report of a call fail before it reaches the core, or just after. */
    private void withoutMemoryToReport(Turn turn, boolean late) throws Exception {
        if (late) {
            Runnable forget = () -> {
                throw new OutOfMemoryError("in a test");
            };
            set(turn.hold(), "forget", forget);
        } else {
            Object completions = get(get(turn.hold(), "client"), "completions");
            set(completions, "operations", new Full<>(null));
        }
    }

    @Test
    void aReportForWhichThereIsNoMemoryReleasesTheLock() throws Exception {
        OnceOptions<String> options =
                OnceOptions.of(Duration.ofSeconds(20), Codec.UTF_8).atMostOnce(true);
        for (boolean late : new boolean[] {false, true}) {
            for (boolean async : new boolean[] {false, true}) {
                String each = name + late + async;
                try (HoldfastClient own = connect()) {
                    Turn turn = own.lock(each, OPTIONS).begin(options);
                    withoutMemoryToReport(turn, late);
                    byte[] paid = "paid".getBytes(StandardCharsets.UTF_8);
                    if (async) {
                        CompletableFuture<Void> told = turn.finishAsync(paid, options.ttl());
                        assertTrue(told.isCompletedExceptionally());
                    } else {
                        assertThrows(
                                OutOfMemoryError.class, () -> turn.finish(paid, options.ttl()));
                    }
                    Async.until(() -> !client.lock(each).isLocked());
                }
            }
        }
    }

    @Test
    void aResultForWhoseReportThereIsNoMemoryIsInTheException() throws Exception {
        OnceOptions<String> options =
                OnceOptions.of(Duration.ofSeconds(20), Codec.UTF_8).atMostOnce(true);
        try (HoldfastClient own = connect()) {
            HoldfastLock mine = own.lock(name, OPTIONS);
            ResultNotKeptException told =
                    assertThrows(
                            ResultNotKeptException.class,
                            () ->
                                    mine.once(
                                            options,
                                            () -> {
                                                Object completions =
                                                        get(get(mine, "client"), "completions");
                                                set(completions, "operations", new Full<>(null));
                                                return "paid";
                                            }));
            assertEquals("paid", told.<String>result());
        }
    }
}
