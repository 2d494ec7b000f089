import io.holdfast.Hold;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;

/**
 * The flash sale's Java buyers; run.py describes the sale and starts them.
 *
 * <p>Every line on standard input is a buyer, "locked 17" or "unlocked 17", which gets a thread and
 * prints its result as one line of JSON.
 */
public final class Buyer {
    private static final String STOCK = System.getenv("SHOP_STOCK");
    private static final String ORDER = System.getenv("SHOP_ORDER");

    public static void main(String[] args) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (HoldfastClient client = Holdfast.connect(System.getenv("SHOP_URL"))) {
            HoldfastLock lock = client.lock(System.getenv("SHOP_LOCK"));
            var buyers = new ArrayList<Thread>();
            System.out.println("{\"ready\":true}");
            for (String line; (line = input.readLine()) != null; ) {
                String[] words = line.split(" ");
                boolean locked = words[0].equals("locked");
                buyers.add(new Thread(() -> buy(lock, Integer.parseInt(words[1]), locked)));
                buyers.get(buyers.size() - 1).start();
            }
            for (Thread buyer : buyers) {
                buyer.join();
            }
        }
    }

    private static void buy(HoldfastLock lock, int number, boolean locked) {
        try (Shop shop = new Shop()) {
            long order;
            long stock;
            long fence = 0;
            try (Hold hold = locked ? lock.acquire(Duration.ofSeconds(60)) : null) {
                order = shop.ask("INCR", ORDER);
                stock = shop.ask("GET", STOCK);
                if (stock > 0) {
                    Thread.sleep(3); // the buyer thinks about the price
                    shop.ask("SET", STOCK, Long.toString(stock - 1));
                }
                if (hold != null) {
                    fence = hold.fence();
                }
            }

            System.out.printf(
                    "{\"buyer\":%d,\"language\":\"java\",\"order\":%d,\"stock\":%d,\"bought\":%b,\"fence\":%d}%n",
                    number, order, stock, stock > 0, fence);
        } catch (Exception problem) {
            problem.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** A few lines of the Redis protocol: enough to keep a shop's stock. */
    private static final class Shop implements AutoCloseable {
        private final SocketChannel channel;
        private final InputStream answers;
        private final OutputStream requests;

        Shop() throws IOException {
            String path = System.getenv("SHOP_SOCKET");
            SocketAddress address =
                    path != null
                            ? UnixDomainSocketAddress.of(path)
                            : new InetSocketAddress(
                                    System.getenv("SHOP_HOST"),
                                    Integer.parseInt(System.getenv("SHOP_PORT")));
            channel = SocketChannel.open(address);
            answers = new BufferedInputStream(Channels.newInputStream(channel));
            requests = Channels.newOutputStream(channel);
            if (System.getenv("SHOP_PASSWORD") != null) {
                ask("AUTH", System.getenv("SHOP_USER"), System.getenv("SHOP_PASSWORD"));
            }
            ask("SELECT", System.getenv("SHOP_DATABASE"));
        }

        /** Sends a command that returns a number, "OK", or a number as text. */
        long ask(String... words) throws IOException {
            var request = new ByteArrayOutputStream();
            request.writeBytes(("*" + words.length + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (String word : words) {
                byte[] bytes = word.getBytes(StandardCharsets.UTF_8);
                request.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
                request.writeBytes(bytes);
                request.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
            }
            request.writeTo(requests);

            String answer = readLine();
            if (answer.startsWith("-")) {
                throw new IOException("the shop: " + answer.substring(1));
            }
            if (answer.startsWith("$") && !answer.equals("$-1")) {
                return Long.parseLong(readLine());
            }
            return answer.startsWith(":") ? Long.parseLong(answer.substring(1)) : 0;
        }

        private String readLine() throws IOException {
            var line = new StringBuilder();
            for (int c; (c = answers.read()) != '\n'; ) {
                if (c < 0) {
                    throw new IOException("the shop has closed");
                }
                line.append((char) c);
            }
            return line.toString().strip();
        }

        @Override
        public void close() throws IOException {
            channel.close();
        }
    }
}
