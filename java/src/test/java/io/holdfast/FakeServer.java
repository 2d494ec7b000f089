package io.holdfast;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.function.Function;

/** What is not a good Redis. It gives every request its answer, which may be none. */
final class FakeServer implements Closeable {
    static final String REDIS_7 = "*2\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n";

    private final ServerSocket socket;
    private final Function<String, String> answers;

    FakeServer(Function<String, String> answers) throws IOException {
        this.answers = answers;
        socket = new ServerSocket(0, 10, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    String url() {
        return "redis://127.0.0.1:" + socket.getLocalPort();
    }

    private void accept() {
        while (!socket.isClosed()) {
            try {
                Socket client = socket.accept();
                start(() -> serve(client));
            } catch (IOException e) {
                return; // closed
            }
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void serve(Socket client) {
        try (client) {
            serve(client.getInputStream(), client.getOutputStream());
        } catch (IOException e) {
            // The next one, please.
        }
    }

    private void serve(InputStream requests, OutputStream out) throws IOException {
        byte[] buffer = new byte[65536];
        for (int length; (length = requests.read(buffer)) > 0; ) {
            String request = new String(buffer, 0, length, StandardCharsets.ISO_8859_1);
            String answer = answers.apply(request);
            out.write(answer.getBytes(StandardCharsets.ISO_8859_1));
            if (!answer.isEmpty() && !answer.endsWith("\r\n")) {
                return; // in the middle of it
            }
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
