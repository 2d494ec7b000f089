package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What takes a JVM of its own. */
final class ProcessTest extends RedisTest {

    private void depart(String how) throws Exception {
        long start = System.nanoTime();
        Jvm.Run run =
                Jvm.run(
                        List.of("-Xcheck:jni"),
                        Jvm.program(Departure.class),
                        url(),
                        name,
                        how);
        assertEquals(new Jvm.Run(0, "done"), run);
        assertTrue(secondsSince(start) < 20);
    }

    @ParameterizedTest
    @ValueSource(strings = {"return", "exit"})
    void aJvmEndsInTheMiddleOfEverythingAndItsLocksEndWithTheirLease(String how) throws Exception {
        depart(how);
        assertTrue(redis.exists(name));
        long start = System.nanoTime();
        try (Hold hold = lock.acquire(LONG)) {
            assertTrue(secondsSince(start) < 3);
            hold.check();
        }
        assertFalse(lock.isLocked());
    }

    @Test
    void aClientMayBeClosedWhileTheJvmShutsDown() throws Exception {
        depart("hook");
        assertEquals(0, redis.exists(name, name + "busy"));
        assertEquals(0, queued());
    }

    @Test
    void tenThousandVirtualThreadsWaitOnTwoCarriersAndAllAreServed() throws Exception {
        int java = Runtime.version().feature();
        Assumptions.assumeTrue(
                java >= 21, "no virtual threads in Java " + java + ": it takes 21 or newer");
        Jvm.Run run =
                Jvm.run(
                        List.of(
                                "-Xmx512m",
                                "-Djdk.virtualThreadScheduler.parallelism=2",
                                "-Djdk.virtualThreadScheduler.maxPoolSize=2"),
                        Jvm.program(Crowd.class),
                        url(),
                        name,
                        "10000");
        assertEquals(new Jvm.Run(0, "served 10000"), run);
        assertEquals(0, queued());
        assertFalse(redis.exists(name));
    }

    @ParameterizedTest
    @ValueSource(strings = {"close", "drop"})
    void theLibraryIsUnloadedWithItsClassLoader(String end) throws Exception {
        Jvm.Run run =
                Jvm.run(
                        List.of("-Xcheck:jni", "-Djava.util.logging.config.file=/dev/null"),
                        Jvm.program(Unloading.class),
                        Jvm.CLASSES + "/",
                        url(),
                        name,
                        end);
        assertEquals(new Jvm.Run(0, "done"), run);
        assertFalse(redis.exists(name));
    }

    @Test
    void aChildProcessHarmsNothing() throws Exception {
        Hold hold = lock.acquire();
        Async<Hold> waiting = Async.start(() -> stranger.acquire());
        Async.until(() -> queued() == 1);
        for (int i = 0; i < 5; i++) {
            assertEquals(0, new ProcessBuilder("true").start().waitFor());
        }
        hold.check();
        hold.close();
        waiting.get().close();
        assertFalse(redis.exists(name));
    }
}
