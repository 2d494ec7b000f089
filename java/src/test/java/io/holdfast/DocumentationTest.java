package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Jvm.Run;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The examples of the documentation, compiled and run as a user would. */
final class DocumentationTest {
    private static final Path ROOT = Path.of("..");
    private static final String URL = RedisServer.shared().tcpUrl;

    @TempDir Path folder;

    @BeforeEach
    void needsACompiler() {
        Assumptions.assumeTrue(
                ModuleFinder.ofSystem().find("jdk.compiler").isPresent(), "this is no JDK");
    }

    /** All ```java blocks. */
    private static List<String> examples(String document) throws IOException {
        Matcher blocks =
                Pattern.compile("^```java\n(.*?)^```$", Pattern.MULTILINE | Pattern.DOTALL)
                        .matcher(Files.readString(ROOT.resolve(document)));
        return blocks.results().map(block -> block.group(1)).toList();
    }

    /** Writes the ```java blocks, whose first lines name files, and gives the files. */
    private List<Path> files(String document) throws IOException {
        List<Path> files = new ArrayList<>();
        for (String example : examples(document)) {
            Matcher name = Pattern.compile("// (\\S+\\.java)\n").matcher(example);
            assertTrue(name.lookingAt(), document + ": an example does not name its file");
            files.add(Files.writeString(folder.resolve(name.group(1)), example));
        }
        return files;
    }

    private static String classPath(String... more) {
        return String.join(
                File.pathSeparator,
                Jvm.CLASSES,
                System.getProperty("jdk.module.path", ""), // Micrometer
                System.getProperty("java.class.path", ""),
                String.join(File.pathSeparator, more));
    }

    private static String run(Path source) throws Exception {
        String[] program = {
            "--enable-native-access=ALL-UNNAMED", "-cp", classPath(), source.toString(), URL
        };
        Run run = Jvm.run(List.of("-Xcheck:jni"), program);
        assertEquals(0, run.status(), run.output());
        return run.output();
    }

    private void compile(List<Path> files) throws Exception {
        String javac = Path.of(System.getProperty("java.home"), "bin", "javac").toString();
        List<String> command = new ArrayList<>(List.of(javac, "-cp", classPath(), "-d", "" + folder));
        files.forEach(file -> command.add(file.toString()));
        Process compiler = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(compiler.getInputStream().readAllBytes());
        assertEquals(0, compiler.waitFor(), said);
    }

    /** Or in the starter's tests: spring.md and fences.md of docs/guides; or in examples/eventloops. */
    @Test
    void everyPageWithAnExampleIsTriedHere() throws Exception {
        Set<String> shown = new TreeSet<>();
        try (Stream<Path> pages = Files.walk(ROOT.resolve("docs"))) {
            for (Path page : pages.filter(Files::isRegularFile).toList()) {
                String name = ROOT.relativize(page).toString();
                if (name.endsWith(".md") && !examples(name).isEmpty()) {
                    shown.add(name);
                }
            }
        }
        assertEquals(
                Set.of(
                        "docs/guides/eventloops.md",
                        "docs/guides/fences.md",
                        "docs/guides/kubernetes.md",
                        "docs/guides/leader.md",
                        "docs/guides/payment.md",
                        "docs/guides/periodic.md",
                        "docs/guides/spring.md",
                        "docs/java.md",
                        "docs/migrating.md"),
                shown);
    }

    @Test
    void theQuickStartIsThatOfTheReadmeAndRuns() throws Exception {
        Path source = ROOT.resolve(Path.of("examples", "java", "Quickstart.java"));
        String readme =
                examples("README.md").get(0).replace("\"redis://localhost\"", "url").indent(8);
        assertTrue(Files.readString(source).contains(readme), readme);
        String output = run(source);
        assertTrue(output.matches("the lock is ours; fence \\d+\n"), output);
    }

    /** In one program: to compile it takes the time. */
    @Test
    void theExamplesOfThePagesRun() throws Exception {
        List<String> examples = new ArrayList<>(examples("docs/java.md"));
        assertEquals(18, examples.size());
        examples.addAll(examples("docs/migrating.md"));
        assertEquals(20, examples.size());
        examples.addAll(examples("docs/guides/leader.md"));
        examples.addAll(examples("docs/guides/periodic.md"));
        examples.addAll(examples("docs/guides/payment.md"));
        assertEquals(24, examples.size());
        String output = run(program(examples));
        String own = "(?s)held.*fence.*fence.*same fence.*0\\.0\nvalid: false\nacquired: true\nsurvived\n";
        String others = "leading, with the fence \\d+\nthe report\nthe import\npaid 42 EUR\n";
        assertTrue(output.matches(own + others), output);
    }

    private Path program(List<String> examples) throws IOException {
        StringBuilder program =
                new StringBuilder(
                        "import io.holdfast.*;\nimport io.holdfast.micrometer.*;\n"
                                + "import io.holdfast.testing.*;\n"
                                + "import io.micrometer.core.instrument.*;\n"
                                + "import io.micrometer.core.instrument.simple.*;\n"
                                + "import io.micrometer.observation.ObservationRegistry;\n"
                                + "import java.time.Duration;\nimport java.util.List;\n"
                                + "import java.util.concurrent.*;\n"
                                + "import java.util.function.*;\n"
                                + "import java.util.concurrent.locks.*;\n"
                                + "import redis.clients.jedis.Jedis;\n"
                                + "class Examples {\n"
                                + "public static void main(String[] url) throws Exception {\n"
                                + "try (HoldfastClient client = Holdfast.connect(url[0]);\n"
                                + "Jedis jedis = new Jedis(url[0])) {\n");
        for (String example : examples) {
            String here = example.replace("\"redis://localhost\"", "url[0]");
            program.append("{\n").append(here).append("}\n");
        }
        program.append("}\n}\n}\n");
        return Files.writeString(folder.resolve("Examples.java"), program);
    }

    @Test
    void theGuideToKubernetesGivesItsLockBackAtSigterm() throws Exception {
        compile(files("docs/guides/kubernetes.md"));
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        ProcessBuilder builder =
                new ProcessBuilder(
                        java,
                        "--enable-native-access=ALL-UNNAMED",
                        "-cp",
                        classPath("" + folder),
                        "Worker");
        builder.redirectErrorStream(true).environment().put("HOLDFAST_URL", URL);
        Process pod = builder.start();
        try (HoldfastClient client = Holdfast.connect(URL);
                BufferedReader said = pod.inputReader()) {
            String line = said.readLine();
            assertTrue(line.startsWith("working, with the fence "), line);
            HoldfastLock lock = client.lock("indexer");
            assertTrue(lock.isLocked());
            pod.destroy(); // SIGTERM
            assertTrue(pod.waitFor(9, TimeUnit.SECONDS), "before the lease would end");
            assertFalse(lock.isLocked());
        } finally {
            pod.destroyForcibly();
        }
    }
}
