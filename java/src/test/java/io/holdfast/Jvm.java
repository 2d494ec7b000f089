package io.holdfast;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A Java program in a process of its own. */
final class Jvm {
    /** The tag of what differs in the newest Java: scripts/test runs it with that once more. */
    static final String NEWEST = "newest";

    static final String CLASSES = System.getProperty("holdfast.classes");
    static final String TEST_CLASSES = System.getProperty("holdfast.test.classes");

    private Jvm() {}

    /** How it ended, and what it said on its standard output and error. */
    record Run(int status, String output) {}

    /** How to start a program of these tests from the class path. */
    static String[] program(Class<?> main) {
        return new String[] {
            "--enable-native-access=ALL-UNNAMED",
            "-cp",
            String.join(java.io.File.pathSeparator, CLASSES, TEST_CLASSES),
            main.getName()
        };
    }

    static Run run(List<String> options, String[] program, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-XX:TieredStopAtLevel=1"); // it lives for a second
        command.addAll(options);
        command.addAll(List.of(program));
        command.addAll(List.of(arguments));
        Path output = Files.createTempFile("holdfast-test", ".txt");
        try {
            Process process =
                    new ProcessBuilder(command)
                            .redirectErrorStream(true)
                            .redirectOutput(output.toFile())
                            .start();
            if (!process.waitFor(50, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
            return new Run(process.waitFor(), Files.readString(output));
        } finally {
            Files.delete(output);
        }
    }
}
