package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** TLS, Sentinel and Cluster, with servers of these tests' own. */
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

    private static boolean says(int port, String section, String what) {
        try (Jedis server = new Jedis("127.0.0.1", port)) {
            return server.info(section).contains(what);
        } catch (JedisConnectionException e) {
            return false;
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

    // --------------------------------------------------------------- Sentinel

    @Test
    void aSentinelTellsWhereTheMasterIsAlsoAfterAFailover() throws Exception {
        int master = freePort();
        int replica = freePort();
        int sentinel = freePort();
        start("--port", "" + master, "--repl-diskless-sync-delay", "0");
        Async.until(() -> says(master, "replication", "role:master"));
        start("--port", "" + replica, "--replicaof", "127.0.0.1", "" + master);
        Async.until(() -> says(replica, "replication", "master_link_status:up"));
        Files.writeString(
                folder.resolve("sentinel.conf"),
                "port " + sentinel + "\nsentinel monitor mine 127.0.0.1 " + master + " 1\n"
                        + "sentinel down-after-milliseconds mine 300\n");
        start("sentinel.conf", "--sentinel");
        Async.until(() -> says(sentinel, "sentinel", "slaves=1"));

        String url = "redis+sentinel://127.0.0.1:" + sentinel;
        assertTold(ConnectionFailedException.class, "yours", url + "/yours");
        try (HoldfastClient client = Holdfast.connect(url + "/mine")) {
            exercise(client);
            servers.get(0).getOutputStream().close(); // the master dies
            servers.get(0).waitFor();
            exercise(client);
        }
        assertTrue(says(replica, "replication", "role:master"));
    }

    // ---------------------------------------------------------------- Cluster

    /** A port whose partner for the nodes' bus is free too. */
    private static int nodePort() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10000, 22000);
            try (ServerSocket node = new ServerSocket(port, 1, loopback);
                    ServerSocket bus = new ServerSocket(port + 10000, 1, loopback)) {
                return port;
            } catch (BindException taken) {
                continue;
            }
        }
    }

    private static void tell(int port, String... words) {
        String[] rest = Arrays.copyOfRange(words, 1, words.length);
        try (Jedis node = new Jedis("127.0.0.1", port)) {
            node.sendCommand(Protocol.Command.valueOf(words[0]), rest);
        }
    }

    private static boolean isUp(int port) {
        try (Jedis node = new Jedis("127.0.0.1", port)) {
            return node.clusterInfo().contains("cluster_state:ok");
        }
    }

    @Test
    void inAClusterLocksAreOnAllOfItsNodes() throws Exception {
        int[] nodes = {nodePort(), nodePort(), nodePort()};
        for (int i = 0; i < nodes.length; i++) {
            int port = nodes[i];
            start(("--port " + port + " --cluster-enabled yes --cluster-config-file " + i).split(" "));
            Async.until(() -> says(port, "cluster", "cluster_enabled:1"));
            String[] slots = {"" + i * 16384 / 3, "" + ((i + 1) * 16384 / 3 - 1)};
            tell(port, "CLUSTER", "ADDSLOTSRANGE", slots[0], slots[1]);
            tell(port, "CLUSTER", "SET-CONFIG-EPOCH", "" + (i + 1));
            tell(nodes[0], "CLUSTER", "MEET", "127.0.0.1", "" + port);
        }
        for (int port : nodes) {
            Async.until(() -> isUp(port));
        }
        String url = "redis+cluster://127.0.0.1:" + nodes[1];
        try (HoldfastClient client = Holdfast.connect(url)) {
            exercise(client);
            List<Hold> holds = new ArrayList<>();
            for (int i = 0; i < 30; i++) {
                holds.add(client.lock("lock-" + i).acquireAsync(LONG).get(20, TimeUnit.SECONDS));
            }
            for (int port : nodes) {
                try (Jedis node = new Jedis("127.0.0.1", port)) {
                    assertTrue(node.dbSize() > 0);
                }
            }
            holds.forEach(Hold::close);
        }
        assertTold(IllegalArgumentException.class, "only the database 0", url + "/1");
    }
}
