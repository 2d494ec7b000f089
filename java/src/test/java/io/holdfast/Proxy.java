package io.holdfast;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;

/** Stands before a server, and holds back what is asked, or what is answered. */
final class Proxy implements Closeable {
    enum Way {
        REQUESTS,
        ANSWERS
    }

    private final URI server;
    private final ServerSocket socket;
    private Way held;
    private boolean caught;

    Proxy(String url) throws IOException {
        server = URI.create(url);
        socket = new ServerSocket(0, 100, InetAddress.getLoopbackAddress());
        start(this::accept);
    }

    String url() {
        return "redis://127.0.0.1:" + socket.getLocalPort();
    }

    /** From now on nothing passes this way. */
    synchronized void hold(Way way) {
        held = way;
        caught = false;
    }

    /** Waits until it holds something back. */
    synchronized void awaitCaught() throws InterruptedException {
        while (held == null || !caught) {
            wait();
        }
    }

    /** What was held back arrives now, also from connections that were closed. */
    synchronized void letGo() {
        held = null;
        notifyAll();
    }

    private void accept() {
        while (!socket.isClosed()) {
            try {
                Socket client = socket.accept();
                Socket behind = new Socket(server.getHost(), server.getPort());
                client.setTcpNoDelay(true);
                behind.setTcpNoDelay(true);
                start(() -> pump(client, behind, Way.REQUESTS));
                start(() -> pump(behind, client, Way.ANSWERS));
            } catch (IOException e) {
                return; // closed
            }
        }
    }

    private void pump(Socket from, Socket to, Way way) {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            byte[] buffer = new byte[65536];
            for (int length; (length = in.read(buffer)) > 0; ) {
                pass(way);
                out.write(buffer, 0, length);
            }
            pass(way);
        } catch (IOException e) {
            // The other end is gone.
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private synchronized void pass(Way way) throws InterruptedException {
        while (held == way) {
            if (!caught) { // or two that are held back would wake each other for ever
                caught = true;
                notifyAll();
            }
            wait();
        }
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    @Override
    public void close() throws IOException {
        socket.close();
        letGo();
    }
}
