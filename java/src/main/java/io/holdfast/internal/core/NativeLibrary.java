package io.holdfast.internal.core;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;

/** Loads the JNI library from the jar, which has one for each platform. */
public final class NativeLibrary {
    private static final String PATH = "holdfast.library.path";
    private static final String HINT =
            "; -D" + PATH + "=FILE makes Holdfast load libholdfast_jni from your own file";

    private NativeLibrary() {}

    /** Loads the library; called once, by the class with the native methods. */
    public static void load() {
        String path = System.getProperty(PATH);
        if (path != null) {
            load(Path.of(path).toAbsolutePath());
            return;
        }
        String file = System.mapLibraryName("holdfast_jni");
        String name = "/META-INF/native/" + platform() + "/" + file;
        try (InputStream library = NativeLibrary.class.getResourceAsStream(name)) {
            if (library == null) {
                throw new UnsatisfiedLinkError(
                        "Holdfast has no native library for " + platform() + HINT);
            }
            loadUnpacked(library);
        } catch (IOException e) {
            throw linkError("Holdfast cannot unpack its native library: " + e + HINT, e);
        }
    }

    /**
     * Loads the library from a folder that only this user may enter, so that no other user can replace
     * it. Once it is loaded, its file is deleted.
     */
    private static void loadUnpacked(InputStream library) throws IOException {
        Path folder = Files.createTempDirectory("holdfast-");
        Path file = folder.resolve("libholdfast_jni");
        try {
            Files.copy(library, file);
            load(file);
        } finally {
            Files.deleteIfExists(file);
            Files.delete(folder);
        }
    }

    private static void load(Path file) {
        try {
            System.load(file.toString());
        } catch (UnsatisfiedLinkError e) {
            throw linkError("Holdfast cannot load its native library: " + e.getMessage() + HINT, e);
        } catch (IllegalCallerException e) { // Java 24 or newer, with --illegal-native-access=deny
            String module = NativeLibrary.class.getModule().getName();
            String whom = module == null ? "ALL-UNNAMED" : module;
            throw linkError(
                    "this Java denies Holdfast its native library: start it with"
                            + " --enable-native-access="
                            + whom,
                    e);
        }
    }

    private static UnsatisfiedLinkError linkError(String message, Throwable cause) {
        UnsatisfiedLinkError error = new UnsatisfiedLinkError(message);
        error.initCause(cause);
        return error;
    }

    private static String platform() {
        return platform(
                System.getProperty("os.name"),
                System.getProperty("os.arch"),
                NativeLibrary::filesOfThisProcess);
    }

    /** Returns the build's name for a platform, such as linux-x86_64 or linux-aarch64-musl. */
    public static String platform(String os, String machine, Supplier<List<String>> files) {
        String system = os.toLowerCase(Locale.ROOT).replace(" ", "");
        String platform = system + "-" + (machine.equals("amd64") ? "x86_64" : machine);
        boolean musl =
                system.equals("linux")
                        && files.get().stream().anyMatch(NativeLibrary::isMusl);
        return musl ? platform + "-musl" : platform;
    }

    /** Whether a mapped file is musl's loader: on Alpine a file, elsewhere a link to its libc.so; glibc's ends in .6 */
    private static boolean isMusl(String line) {
        return line.contains("/ld-musl-") || line.endsWith("/libc.so");
    }

    /** Returns the files mapped in this process: among them its own loader, whatever else is installed. */
    private static List<String> filesOfThisProcess() {
        try {
            return Files.readAllLines(Path.of("/proc/self/maps"), StandardCharsets.ISO_8859_1);
        } catch (IOException e) {
            return List.of();
        }
    }
}
