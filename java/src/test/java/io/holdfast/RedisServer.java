package io.holdfast;

import java.io.BufferedReader;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Jedis;

/**
 * A real Redis: the one that tests/with-redis started around Maven, or one that it starts here and
 * stops when its input ends, and so also when this JVM does.
 */
final class RedisServer implements AutoCloseable {
    private static RedisServer shared;

    final String tcpUrl;
    final String unixUrl;
    final String pid;
    private final Process process;

    private RedisServer(String tcpUrl, String unixUrl, String pid, Process process) {
        this.tcpUrl = tcpUrl;
        this.unixUrl = unixUrl;
        this.pid = pid;
        this.process = process;
    }

    /** The one for all tests; not to be closed, stopped, or given a password. */
    static synchronized RedisServer shared() {
        if (shared == null) {
            String url = System.getenv("HOLDFAST_TEST_URL");
            String unixUrl = System.getenv().getOrDefault("HOLDFAST_TEST_UNIX_URL", url);
            shared = url != null ? new RedisServer(url, unixUrl, null, null) : start();
        }
        return shared;
    }

    /** One for this test alone. */
    static RedisServer start() {
        String[] command = {
            Path.of("..", "tests", "with-redis").toString(),
            "sh",
            "-c",
            "echo $HOLDFAST_TEST_URL; echo $HOLDFAST_TEST_UNIX_URL; echo $HOLDFAST_TEST_REDIS_PID;"
                    + " cat >/dev/null"
        };
        try {
            Process process =
                    new ProcessBuilder(command)
                            .redirectError(ProcessBuilder.Redirect.INHERIT)
                            .start();
            BufferedReader lines = process.inputReader();
            return new RedisServer(lines.readLine(), lines.readLine(), lines.readLine(), process);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    /** A client with patience for a machine that stands still. */
    HoldfastClient connect() {
        return Holdfast.connect(tcpUrl + "?connect_timeout=20");
    }

    /** It keeps its connections, and answers nothing until {@link #resume()}. */
    void stall() throws IOException, InterruptedException {
        signal("-STOP");
    }

    void resume() throws IOException, InterruptedException {
        signal("-CONT");
    }

    /** It is gone, and so are its connections. */
    void kill() throws IOException, InterruptedException {
        signal("-KILL");
        Async.until(() -> !listens());
    }

    private boolean listens() {
        URI uri = URI.create(tcpUrl);
        try (Socket socket = new Socket(uri.getHost(), uri.getPort())) {
            return socket.isConnected();
        } catch (IOException e) {
            return false;
        }
    }

    private void signal(String signal) throws IOException, InterruptedException {
        if (new ProcessBuilder("kill", signal, pid).start().waitFor() != 0) {
            throw new AssertionError("the server is not there");
        }
    }

    /** Looks at the server without the library. */
    Jedis look() {
        return new Jedis(tcpUrl);
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.getOutputStream().close();
        if (!process.waitFor(20, TimeUnit.SECONDS)) {
            process.destroy();
            throw new AssertionError("the server has not ended");
        }
    }
}
