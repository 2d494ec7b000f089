package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Jvm.Run;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import redis.clients.jedis.Jedis;

/** How the library gets into a JVM: each test starts one. */
@Tag(Jvm.NEWEST)
final class LoadingTest {
    private static final String CLASSES = Jvm.CLASSES;
    private static final String URL = RedisServer.shared().tcpUrl;

    private static final String[] CLASS_PATH = Jvm.program(Exercise.class);

    @TempDir Path folder;

    private Run java(List<String> options, String[] program, String... arguments)
            throws IOException, InterruptedException {
        List<String> all = new ArrayList<>(options);
        all.add("-Djava.io.tmpdir=" + folder);
        return Jvm.run(all, program, arguments);
    }

    private void assertNothingLeft() throws IOException {
        try (var left = Files.list(folder).filter(p -> p.toString().contains("holdfast"))) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void theJvmFindsNothingToComplainOf() throws Exception {
        assertEquals(new Run(0, "done"), java(List.of("-Xcheck:jni"), CLASS_PATH, URL));
        assertNothingLeft();
    }

    @Test
    void itRunsAsAModule() throws Exception {
        String[] module = {
            "--enable-native-access=io.holdfast",
            "--module-path",
            CLASSES,
            "--patch-module",
            "io.holdfast=" + Jvm.TEST_CLASSES,
            "--module",
            "io.holdfast/io.holdfast.Exercise"
        };
        assertEquals(new Run(0, "done"), java(List.of("-Xcheck:jni"), module, URL));
    }

    @Test
    void itRunsWithoutBeingGivenNativeAccess() throws Exception {
        String[] program = List.of(CLASS_PATH).subList(1, 4).toArray(String[]::new);
        Run run = java(List.of(), program, URL);
        assertTrue(run.output().endsWith("done"), run.output());
        assertEquals(0, run.status());
    }

    @Test
    void whereNativeAccessIsDeniedTheErrorSaysHowToGiveIt() throws Exception {
        int java = Runtime.version().feature();
        Assumptions.assumeTrue(java >= 24, "not denied in Java " + java);
        String[] program = List.of(CLASS_PATH).subList(1, 4).toArray(String[]::new);
        Run run = java(List.of("--illegal-native-access=deny"), program, URL);
        assertEquals(1, run.status());
        assertTrue(run.output().contains("UnsatisfiedLinkError: this Java"), run.output());
        assertTrue(run.output().contains("--enable-native-access=ALL-UNNAMED"), run.output());
        assertNothingLeft();
    }

    @Test
    void aFileOfOnesOwnIsLoadedInstead() throws Exception {
        Path library = folder.resolve("own.so");
        String name = "META-INF/native/linux-" + machine() + "/libholdfast_jni.so";
        Files.copy(Path.of(CLASSES, name), library);
        List<String> options = List.of("-Dholdfast.library.path=" + library, "-Dos.name=none");
        assertEquals(new Run(0, "done"), java(options, CLASS_PATH, URL));

        Files.delete(library);
        Run run = java(options, CLASS_PATH, URL);
        assertTrue(run.output().contains("UnsatisfiedLinkError"), run.output());
        assertTrue(run.output().contains(library.toString()), run.output());
    }

    @Test
    void twoClassLoadersHaveItAtTheSameTimeButNotFromOneFile() throws Exception {
        String[] program = Jvm.program(TwoLoaders.class);
        String name = "test:" + UUID.randomUUID();
        Run run = java(List.of("-Xcheck:jni"), program, CLASSES + "/", URL, name);
        assertEquals(new Run(0, "false true"), run);
        assertNothingLeft();

        String library = CLASSES + "/META-INF/native/linux-" + machine() + "/libholdfast_jni.so";
        List<String> options = List.of("-Dholdfast.library.path=" + library);
        run = java(options, program, CLASSES + "/", URL, name);
        assertTrue(run.output().contains("already loaded in another classloader"), run.output());
    }

    @Test
    void aPlatformWithoutALibraryIsNamed() throws Exception {
        List<String> options = List.of("-Dos.name=Mac OS X", "-Dos.arch=m68k");
        Run run = java(options, CLASS_PATH, URL);
        assertEquals(1, run.status());
        assertTrue(run.output().contains("no native library for macosx-m68k"), run.output());
        assertTrue(run.output().contains("-Dholdfast.library.path="), run.output());
        assertNothingLeft();
    }

    @Test
    void aLibraryThatCannotBeLoadedIsToldOfAndRemoved() throws Exception {
        Path classes = folder.resolve("classes");
        Path library = classes.resolve("META-INF/native/linux-" + machine());
        Files.createDirectories(library);
        Files.writeString(library.resolve("libholdfast_jni.so"), "not a library");
        String[] program = CLASS_PATH.clone();
        program[2] = classes + java.io.File.pathSeparator + program[2];
        Run run = java(List.of(), program, URL);
        assertEquals(1, run.status());
        assertTrue(run.output().contains("cannot load its native library"), run.output());
        assertNothingLeft();
    }

    @Test
    void aDroppedHoldIsWarnedOfAndNotReleased() throws Exception {
        String name = "test:" + UUID.randomUUID();
        Run run = java(List.of(), CLASS_PATH, URL, name);
        assertTrue(run.output().contains("WARNING: Hold[RedisLock[" + name + "], "), run.output());
        try (Jedis redis = RedisServer.shared().look()) {
            assertTrue(redis.exists(name));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"platform", "virtual"})
    void aThreadThatEndsHoldingIsWarnedOfAndItsLockIsRenewed(String kind) throws Exception {
        int java = Runtime.version().feature();
        Assumptions.assumeTrue(
                kind.equals("platform") || java >= 21, "no virtual threads in Java " + java);
        String name = "test:" + UUID.randomUUID();
        Run run = java(List.of(), CLASS_PATH, URL, name, kind);
        String held = "RedisLock[" + name + "], ";
        String warning = "WARNING: thread \"careless\" ended while it held " + held;
        assertTrue(run.output().contains(warning), run.output());
        assertEquals(2, run.output().split("WARNING: thread ").length, run.output());
        assertTrue(run.output().contains("its lease grew"), run.output());
    }

    private static String machine() {
        String machine = System.getProperty("os.arch");
        return machine.equals("amd64") ? "x86_64" : machine;
    }
}
