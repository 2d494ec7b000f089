package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** TLS in a JVM. Sentinel and Cluster are the core's alone: tests/deployments. */
final class DeploymentTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    @TempDir Path folder;
    private final List<Process> servers = new ArrayList<>();

    @AfterEach
    void stop() throws Exception {
        for (Process server : servers) {
            server.getOutputStream().close();
        }
        for (Process server : servers) {
            assertTrue(server.waitFor(20, TimeUnit.SECONDS));
        }
    }

    /** It ends when its input does, and so also when this JVM does. */
    private void start(String... arguments) throws IOException {
        String script = "redis-server \"$@\" >>log 2>&1 & server=$!; cat; kill -KILL $server; wait";
        List<String> command = new ArrayList<>(List.of("sh", "-c", script, "sh"));
        command.addAll(List.of(arguments));
        command.addAll(List.of("--bind", "127.0.0.1"));
        servers.add(
                new ProcessBuilder(command)
                        .directory(folder.toFile())
                        .redirectError(ProcessBuilder.Redirect.DISCARD)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .start());
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    private static void exercise(HoldfastClient client) throws Exception {
        HoldfastLock lock = client.lock("stock");
        Hold first = lock.acquire(LONG);
        Async<Long> waiting =
                Async.start(
                        () -> {
                            try (Hold hold = lock.acquire(LONG)) {
                                return hold.fence();
                            }
                        });
        Async.until(() -> lock.inspect().waiters() == 1);
        first.close();
        assertTrue(waiting.get() > first.fence());
        assertFalse(lock.isLocked());
    }

    // -------------------------------------------------------------------- TLS

    /** A certificate for this machine, signed by itself, and its key. */
    private void makeCertificate() throws Exception {
        String tool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        Process keytool =
                new ProcessBuilder(
                                (tool + " -genkeypair -alias server -keyalg EC -dname CN=server"
                                                + " -ext san=ip:127.0.0.1 -ext bc=ca:true"
                                                + " -validity 10 -storetype PKCS12"
                                                + " -keystore server.p12 -storepass secret")
                                        .split(" "))
                        .directory(folder.toFile())
                        .redirectErrorStream(true)
                        .start();
        String said = new String(keytool.getInputStream().readAllBytes());
        assertEquals(0, keytool.waitFor(), said);
        char[] password = "secret".toCharArray();
        KeyStore store = KeyStore.getInstance(folder.resolve("server.p12").toFile(), password);
        write("server.pem", "CERTIFICATE", store.getCertificate("server").getEncoded());
        write("server.key", "PRIVATE KEY", store.getKey("server", password).getEncoded());
    }

    private void write(String file, String what, byte[] bytes) throws IOException {
        String text = Base64.getMimeEncoder().encodeToString(bytes);
        Files.writeString(
                folder.resolve(file),
                "-----BEGIN " + what + "-----\n" + text + "\n-----END " + what + "-----\n");
    }

    @Test
    void overTlsTheServerIsLookedAtFirst() throws Exception {
        makeCertificate();
        int port = freePort();
        start(
                ("--port 0 --tls-port " + port + " --tls-auth-clients no"
                                + " --tls-cert-file server.pem --tls-key-file server.key"
                                + " --tls-ca-cert-file server.pem")
                        .split(" "));
        String url = "rediss://127.0.0.1:" + port;
        String trusted = url + "?tls_ca=" + folder.resolve("server.pem");
        Async.until(() -> connects(trusted));
        try (HoldfastClient client = Holdfast.connect(trusted)) {
            exercise(client);
        }
        assertTold(ConnectionFailedException.class, "self-signed", url);
        assertTold(ConnectionFailedException.class, "127.0.0.2", trusted.replace(".1:", ".2:"));
        assertTold(IllegalArgumentException.class, "/nowhere", url + "?tls_ca=/nowhere");
        assertTold(IllegalArgumentException.class, "rediss", "redis://localhost?tls_verify=off");
    }

    private static boolean connects(String url) {
        try {
            Holdfast.connect(url).close();
            return true;
        } catch (ConnectionFailedException e) {
            return false;
        }
    }

    private static void assertTold(Class<? extends Exception> type, String says, String url) {
        Exception error = assertThrows(type, () -> Holdfast.connect(url).close());
        assertTrue(error.getMessage().contains(says), error.getMessage());
    }
}
