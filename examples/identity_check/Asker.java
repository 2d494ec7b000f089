import io.holdfast.Codec;
import io.holdfast.Holdfast;
import io.holdfast.HoldfastClient;
import io.holdfast.HoldfastLock;
import io.holdfast.OnceOptions;
import io.holdfast.OutcomeUnknownException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Collections;
import java.util.Scanner;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * The askers in Java; run.py describes the question and starts them.
 *
 * <p>A line on standard input, "once 33 NAME" or "each 33 NAME", gives the way to ask, the number
 * of callers, and the name of the call, which is also the vendor's idempotency key. Each caller
 * prints its answer as a line of JSON. With "most" the vendor is called at most once, whichever
 * process dies: docs/guides/payment.md.
 */
public final class Asker {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final HttpClient HTTP =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    public static void main(String[] args) throws Exception {
        try (HoldfastClient client = Holdfast.connect(System.getenv("REDIS"))) {
            System.out.println("{\"ready\":true}");
            Scanner input = new Scanner(System.in);
            while (input.hasNext()) {
                askAll(client, input.next(), input.nextInt(), input.next());
            }
        }
    }

    private static void askAll(HoldfastClient client, String how, int askers, String name)
            throws Exception {
        HoldfastLock check = client.lock(name);
        Callable<Void> asker =
                () -> {
                    if (how.equals("most")) {
                        pay(check, name);
                        return null;
                    }
                    String answer =
                            how.equals("once")
                                    ? check.once(
                                            MINUTE, MINUTE, Codec.UTF_8, () -> askVendor(name))
                                    : askVendor(name);
                    System.out.println("{\"language\":\"java\",\"answer\":" + answer + "}");
                    return null;
                };
        var pool = Executors.newFixedThreadPool(askers);
        for (Future<Void> each : pool.invokeAll(Collections.nCopies(askers, asker))) {
            each.get();
        }
        pool.shutdown();
    }

    private static void pay(HoldfastLock check, String name) throws Exception {
        OnceOptions<String> options =
                OnceOptions.of(MINUTE, Codec.UTF_8)
                        .timeout(MINUTE)
                        .atMostOnce(true)
                        .keep(Declined.class);
        String outcome;
        try {
            outcome = "\"answer\":" + check.once(options, () -> askVendor(name));
        } catch (OutcomeUnknownException unknown) {
            outcome = "\"unknown\":true";
        } catch (Declined refused) {
            outcome =
                    String.format(
                            "\"error\":{\"type\":\"Declined\",\"message\":\"%s\",\"data\":null}",
                            refused.getMessage());
        }
        System.out.println("{\"language\":\"java\"," + outcome + "}");
    }

    /** The vendor refuses: this is an answer as well, and all other callers get it. */
    public static final class Declined extends Exception {
        private static final long serialVersionUID = 1;

        public Declined(String message) {
            super(message);
        }
    }

    private static String askVendor(String name) throws Exception {
        String identity =
                String.format(
                        "{\"name\":\"%s\",\"number\":\"%s\",\"born\":\"%s\"}",
                        System.getenv("IDENTITY_NAME"),
                        System.getenv("IDENTITY_NUMBER"),
                        System.getenv("IDENTITY_BORN"));
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(System.getenv("VENDOR")))
                        .timeout(MINUTE)
                        .header("Idempotency-Key", name)
                        .POST(HttpRequest.BodyPublishers.ofString(identity))
                        .build();
        HttpResponse<String> response = HTTP.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() == 402) {
            throw new Declined(response.body());
        }
        return response.body();
    }
}
