package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.internal.core.NativeLibrary;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which native library is taken from the jar, and what native-image must know of it. */
final class NativeLibraryTest {
    private static final String STATUS = "io.holdfast.internal.redis.Status";
    private static final String METADATA = "/META-INF/native-image/io.holdfast/holdfast/";

    @ParameterizedTest
    @CsvSource({
        "Linux, amd64, /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2, linux-x86_64",
        "Linux, aarch64, /lib/ld-linux-aarch64.so.1, linux-aarch64",
        "Linux, amd64, /lib/ld-musl-x86_64.so.1, linux-x86_64-musl",
        "Linux, aarch64, /lib/ld-musl-aarch64.so.1, linux-aarch64-musl",
        "Linux, amd64, /usr/lib/libc.so, linux-x86_64-musl",
        "Linux, amd64, /usr/lib/x86_64-linux-gnu/libc.so.6, linux-x86_64",
        "Mac OS X, aarch64, /lib/ld-musl-aarch64.so.1, macosx-aarch64",
    })
    void theLoaderOfTheProcessTellsTheLibc(String os, String machine, String file, String name) {
        List<String> files = List.of("7f00-7f10 r--p 0 08:01 1 /usr/bin/java", "7f20-7f30 r " + file);
        assertEquals(name, NativeLibrary.platform(os, machine, () -> files));
    }

    @Test
    void withoutAListOfFilesItIsTheUsualLibc() {
        assertEquals("linux-x86_64", NativeLibrary.platform("Linux", "amd64", List::of));
    }

    /** A native image has only the classes and methods that its metadata names. */
    @Test
    void everyClassThatNativeCodeLooksForIsInTheMetadata() throws Exception {
        String metadata = read("jni-config.json").replace("byte[]", "[B");
        String code = Files.readString(Path.of(System.getProperty("holdfast.source"), "bindings/java.i"));
        Set<String> wanted = new TreeSet<>();
        var found = Pattern.compile("(?:FindClass|hf_array)\\(\\w+, \"([^\"]+)\"").matcher(code);
        while (found.find()) {
            wanted.add(found.group(1).replace('/', '.'));
        }
        assertTrue(wanted.contains(STATUS), wanted.toString());
        Set<String> named = new TreeSet<>();
        var names = Pattern.compile("\\{\"name\": \"([^\"<]+)\"[,}]").matcher(metadata);
        while (names.find()) {
            if (names.group(1).contains(".") || names.group(1).startsWith("[")) {
                named.add(names.group(1));
            }
        }
        assertEquals(wanted, named);

        Set<String> methods =
                Arrays.stream(Class.forName(STATUS).getDeclaredMethods())
                        .filter(each -> Arrays.equals(each.getParameterTypes(), raised()))
                        .map(Method::getName)
                        .collect(Collectors.toSet());
        assertTrue(methods.contains("raise"), methods.toString());
        assertTrue(metadata.contains("\"raise\", \"parameterTypes\": [\"int\", \"[B\"]"), metadata);
    }

    @Test
    void theMetadataNamesTheFolderOfTheNativeLibraries() throws IOException {
        assertTrue(read("resource-config.json").contains("\\\\QMETA-INF/native/\\\\E.*"));
        assertTrue(read("reflect-config.json").contains("isVirtual"));
    }

    private static Class<?>[] raised() {
        return new Class<?>[] {int.class, byte[].class};
    }

    private static String read(String name) throws IOException {
        try (InputStream file = NativeLibraryTest.class.getResourceAsStream(METADATA + name)) {
            assertNotNull(file, name);
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
