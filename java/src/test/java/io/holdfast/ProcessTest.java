package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;

/** What takes a JVM of its own. */
final class ProcessTest extends RedisTest {

    private void depart(String how, int status) throws Exception {
        long start = System.nanoTime();
        Jvm.Run run =
                Jvm.run(
                        List.of("-Xcheck:jni"),
                        Jvm.program(Departure.class),
                        url(),
                        name,
                        how);
        assertEquals(new Jvm.Run(status, "done"), run);
        assertTrue(secondsSince(start) < 20);
    }

    @Test
    void aJvmEndsInTheMiddleOfEverythingAndItsLocksEndWithTheirLease() throws Exception {
        depart("off", 0);
        assertTrue(redis.exists(name));
        long start = System.nanoTime();
        try (Hold hold = lock.acquire(LONG)) {
            assertInTime(start);
            hold.check();
        }
        assertFalse(lock.isLocked());
    }

    @ParameterizedTest
    @CsvSource({"return,0", "exit,0", "term,143", "hook,0"})
    void aClientThatIsClosedWhileTheJvmShutsDownLeavesNothing(String how, int status)
            throws Exception {
        depart(how, status);
        assertEquals(0, redis.exists(name, name + "busy"));
        assertEquals(0, queued());
    }

    @Tag(Jvm.NEWEST)
    @Test
    void aThreadOfAPoolThatWaitsRunsNoOtherTaskInsideOfItsLock() throws Exception {
        Jvm.Run run =
                Jvm.run(
                        List.of("-Djava.util.concurrent.ForkJoinPool.common.parallelism=2"),
                        Jvm.program(Helping.class),
                        url(),
                        name);
        assertEquals(new Jvm.Run(0, "done"), run);
    }

    @Test
    void aLoggerThatThrowsEndsNothing(@TempDir Path folder) throws Exception {
        Path services = Files.createDirectories(folder.resolve("META-INF/services"));
        Files.writeString(
                services.resolve(System.LoggerFinder.class.getName()), BrokenLog.class.getName());
        String[] program = Jvm.program(BrokenLog.class);
        program[2] = folder + File.pathSeparator + program[2];
        assertEquals(new Jvm.Run(0, "done"), Jvm.run(List.of(), program, url(), name));
    }

    @Tag(Jvm.NEWEST)
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

    @Tag(Jvm.NEWEST)
    @Test
    void aStalledServerStopsNoOtherVirtualThread() throws Exception {
        int java = Runtime.version().feature();
        Assumptions.assumeTrue(
                java >= 21, "no virtual threads in Java " + java + ": it takes 21 or newer");
        try (RedisServer stalled = RedisServer.start();
                Jedis admin = stalled.look()) {
            Jvm.Run run =
                    Jvm.run(
                            List.of(
                                    "-Djdk.virtualThreadScheduler.parallelism=1",
                                    "-Djdk.virtualThreadScheduler.maxPoolSize=1"),
                            Jvm.program(Stalled.class),
                            url(),
                            stalled.tcpUrl,
                            stalled.pid);
            assertTrue(run.output().contains("10 wait, and it closes"), run.output());
            Async.until(() -> !admin.exists("free"));
        }
    }

    @Tag(Jvm.NEWEST)
    @Test
    void whereNoThreadIsToBeHadNothingIsLost() throws Exception {
        int java = Runtime.version().feature();
        Assumptions.assumeTrue(
                java >= 21, "no virtual threads in Java " + java + ": it takes 21 or newer");
        Jvm.Run run =
                Jvm.run(
                        List.of("-Xlog:disable", "-Xss512m", "-Xms64m", "-Xmx64m"),
                        Jvm.program(Shortage.class),
                        url(),
                        name);
        assertEquals(new Jvm.Run(0, "done"), run);
    }

    @Test
    void whatEndsWhileTheHeapIsFullIsToldAllTheSame() throws Exception {
        Jvm.Run run =
                Jvm.run(
                        List.of(
                                "-Xmx32m",
                                "-XX:+UseSerialGC",
                                "-Djava.util.logging.config.file=/dev/null"),
                        Jvm.program(FullHeap.class),
                        url(),
                        name);
        assertEquals(new Jvm.Run(0, "done"), run);
    }

    @Tag(Jvm.NEWEST)
    @ParameterizedTest
    @ValueSource(strings = {"close", "drop"})
    void theClassesAreUnloadedWithTheirClassLoader(String end) throws Exception {
        Jvm.Run run =
                Jvm.run(
                        List.of("-Xcheck:jni", "-Djava.util.logging.config.file=/dev/null"),
                        Jvm.program(Unloading.class),
                        url(),
                        name,
                        end,
                        Jvm.CLASSES + "/",
                        Jvm.TEST_CLASSES + "/");
        assertEquals(new Jvm.Run(0, "done"), run);
        assertFalse(redis.exists(name));
    }

    /** What this process has open: the descriptor's number, and what it is. */
    private static Map<String, String> descriptors() throws IOException {
        Map<String, String> found = new HashMap<>();
        try (var all = Files.newDirectoryStream(Path.of("/proc/self/fd"))) {
            for (Path descriptor : all) {
                try {
                    String what = Files.readSymbolicLink(descriptor).toString();
                    if (what.startsWith("socket:") || what.startsWith("anon_inode:")) {
                        found.put(descriptor.getFileName().toString(), what);
                    }
                } catch (NoSuchFileException e) {
                    continue; // that of the listing
                }
            }
        }
        return found;
    }

    @Test
    void aChildProcessInheritsNothing() throws Exception {
        assertEquals(0, queued()); // the JVM's own sockets are closed by what it starts instead
        Map<String, String> before = descriptors();
        HoldfastClient busy =
                Holdfast.connect(url(), ClientOptions.defaults().clientName("inherited"));
        try (busy) {
            lock.lock();
            Async<Boolean> waiting =
                    Async.start(() -> busy.lock(name).tryLock(1, TimeUnit.MINUTES));
            Async.until(() -> queued() == 1);
            Map<String, String> after = descriptors();
            after.entrySet().removeAll(before.entrySet());
            assertTrue(after.size() >= 4, after.toString()); // connections, and what wakes threads
            for (String descriptor : after.keySet()) {
                String info = Files.readString(Path.of("/proc/self/fdinfo", descriptor));
                String octal = info.replaceAll("(?s).*?\\nflags:\\s*(\\d+).*", "$1");
                long flags = Long.parseLong(octal, 8);
                assertTrue((flags & 02000000) != 0, after.get(descriptor)); // O_CLOEXEC
            }

            Process child = new ProcessBuilder("cat").start();
            lock.unlock();
            assertTrue(waiting.get());
            busy.close();
            Async.until(() -> !redis.clientList().contains(" name=inherited "));
            assertTrue(child.isAlive());
            child.getOutputStream().close();
            assertEquals(0, child.waitFor());
        }
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
