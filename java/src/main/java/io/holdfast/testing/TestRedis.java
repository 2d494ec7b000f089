package io.holdfast.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/**
 * A private Redis for a test: the {@code redis-server} of the {@code PATH}, or else its {@code
 * valkey-server}, on a free port of this host. It keeps nothing on disk, and ends at the latest
 * with this JVM.
 *
 * <pre>{@code
 * try (TestRedis redis = TestRedis.start();
 *         HoldfastClient client = Holdfast.connect(redis.url())) {
 *     client.lock("stock").lock();
 * }
 * }</pre>
 */
public final class TestRedis implements AutoCloseable {
    /** Ends the server when its input ends, and so also at the end of this JVM. */
    private static final String SCRIPT =
            "program=$(command -v redis-server || command -v valkey-server) || exit 127;"
                    + " \"$program\" --bind 127.0.0.1 --port $0 --save '' --appendonly no"
                    + " --dir / </dev/null >/dev/null 2>&1 & server=$!;"
                    + " cat >/dev/null; kill -KILL $server";

    private static final int TRIES = 10;
    private static final long PATIENCE_NANOS = TimeUnit.SECONDS.toNanos(5);

    private final int port;
    private final Process process;

    private TestRedis(int port, Process process) {
        this.port = port;
        this.process = process;
    }

    /**
     * Starts a server, and waits until it answers.
     *
     * @return the server; close it
     * @throws IllegalStateException if there is no {@code redis-server} in the {@code PATH}, or it
     *     does not start
     */
    public static TestRedis start() {
        for (int i = 0; i < TRIES; i++) {
            try {
                TestRedis redis = new TestRedis(freePort());
                if (redis.awaitAnswer()) {
                    return redis;
                }
                redis.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        throw new IllegalStateException("redis-server does not start");
    }

    private TestRedis(int port) throws IOException {
        this(port, new ProcessBuilder("sh", "-c", SCRIPT, "" + port).start());
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    /** Returns whether the server answers; if not, another program has probably taken the port. */
    private boolean awaitAnswer() {
        for (long start = System.nanoTime(); process.isAlive(); ) {
            if (answers()) {
                return true;
            }
            if (System.nanoTime() - start > PATIENCE_NANOS) {
                return false;
            }
            pause();
        }
        if (process.exitValue() == 127) {
            throw new IllegalStateException("there is no redis-server in the PATH");
        }
        return false;
    }

    private boolean answers() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
            socket.setSoTimeout(1000);
            socket.getOutputStream().write("PING\r\n".getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readNBytes(5), StandardCharsets.US_ASCII)
                    .equals("+PONG");
        } catch (IOException e) {
            return false;
        }
    }

    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while redis-server starts", e);
        }
    }

    /**
     * The server's address.
     *
     * @return a URL for {@link io.holdfast.Holdfast#connect(String)}
     */
    public String url() {
        return "redis://127.0.0.1:" + port;
    }

    /** Ends the server. A second close does nothing. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
        } catch (IOException e) {
            process.destroy();
        }
        process.onExit().join(); // even if the thread is interrupted
    }
}
