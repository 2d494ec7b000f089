package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.Jvm.Run;
import java.io.File;
import java.io.IOException;
import java.lang.module.ModuleFinder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
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

    private static String run(Path source) throws Exception {
        String path =
                String.join(
                        File.pathSeparator,
                        Jvm.CLASSES,
                        System.getProperty("jdk.module.path", ""), // Micrometer
                        System.getProperty("java.class.path", ""));
        String[] program = {
            "--enable-native-access=ALL-UNNAMED", "-cp", path, source.toString(), URL
        };
        Run run = Jvm.run(List.of("-Xcheck:jni"), program);
        assertEquals(0, run.status(), run.output());
        return run.output();
    }

    @Test
    void theQuickStartIsThatOfTheReadmeAndRuns() throws Exception {
        Path source = ROOT.resolve(Path.of("examples", "java", "Quickstart.java"));
        String readme =
                examples("README.md").get(0).replace("\"redis://localhost\"", "url").indent(8);
        assertTrue(Files.readString(source).contains(readme), readme);
        String output = run(source);
        assertTrue(output.matches("nobody else is in here; fence \\d+\n"), output);
    }

    @Test
    void theExamplesOfItsOwnPageRun() throws Exception {
        List<String> examples = examples("docs/java.md");
        assertEquals(13, examples.size());
        StringBuilder program =
                new StringBuilder(
                        "import io.holdfast.*;\nimport io.holdfast.micrometer.*;\n"
                                + "import io.holdfast.testing.*;\n"
                                + "import io.micrometer.core.instrument.*;\n"
                                + "import io.micrometer.core.instrument.simple.*;\n"
                                + "import java.time.Duration;\nimport java.util.concurrent.*;\n"
                                + "import java.util.concurrent.locks.*;\n"
                                + "class Examples {\n"
                                + "public static void main(String[] url) throws Exception {\n"
                                + "try (HoldfastClient client = Holdfast.connect(url[0])) {\n");
        for (String example : examples) {
            String here = example.replace("\"redis://localhost\"", "url[0]");
            program.append("{\n").append(here).append("}\n");
        }
        program.append("}\n}\n}\n");
        Path source = Files.writeString(folder.resolve("Examples.java"), program);
        String output = run(source);
        assertTrue(output.matches("(?s)held.*fence.*fence.*same fence.*0\\.0\nvalid: false\nacquired: true\n"), output);
    }
}
