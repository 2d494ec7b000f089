package io.holdfast;

import java.time.Duration;

/**
 * How a client talks to its server. Immutable: every method returns new options. An option that is
 * not set here comes from the URL, or else is the library's choice.
 *
 * <pre>{@code
 * Holdfast.connect(url, ClientOptions.defaults().connectTimeout(Duration.ofMillis(500)))
 * }</pre>
 */
public final class ClientOptions {
    private static final ClientOptions DEFAULTS = new ClientOptions();

    /** 0 and empty: the URL's or the library's choice, as in the core. */
    int idleConnections;

    int maxConnections;
    long connectTimeoutMillis;
    long commandTimeoutMillis;
    long keepAliveMillis;
    String clientName = "";

    private ClientOptions() {}

    private ClientOptions copy() {
        ClientOptions copy = new ClientOptions();
        copy.idleConnections = idleConnections;
        copy.maxConnections = maxConnections;
        copy.connectTimeoutMillis = connectTimeoutMillis;
        copy.commandTimeoutMillis = commandTimeoutMillis;
        copy.keepAliveMillis = keepAliveMillis;
        copy.clientName = clientName;
        return copy;
    }

    /**
     * The defaults.
     *
     * @return two seconds to connect, two seconds for each answer, 16 idle connections, no limit of
     *     connections in use, a keep-alive of 15 seconds, the name "holdfast"
     */
    public static ClientOptions defaults() {
        return DEFAULTS;
    }

    /**
     * The time limit to reach the server and log in.
     *
     * @param timeout positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions connectTimeout(Duration timeout) {
        ClientOptions options = copy();
        options.connectTimeoutMillis = Millis.positive(timeout, "connect timeout");
        return options;
    }

    /**
     * The time limit for the answer to one command.
     *
     * @param timeout positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions commandTimeout(Duration timeout) {
        ClientOptions options = copy();
        options.commandTimeoutMillis = Millis.positive(timeout, "command timeout");
        return options;
    }

    /**
     * The silence after which the system asks whether the other end is alive (TCP keep-alive).
     *
     * @param silence positive, rounded up to seconds; or zero: never
     * @return new options
     * @throws IllegalArgumentException if it is negative
     */
    public ClientOptions keepAlive(Duration silence) {
        ClientOptions options = copy();
        options.keepAliveMillis =
                silence.isZero() ? Core.HF_NEVER : Millis.positive(silence, "keep-alive");
        return options;
    }

    /**
     * How many idle connections the client keeps.
     *
     * @param count 1 or more
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions idleConnections(int count) {
        ClientOptions options = copy();
        options.idleConnections = positive(count, "idle connections");
        return options;
    }

    /**
     * How many connections calls may use at once. If none is free, a call waits for one, in its turn
     * and within its own time limit.
     *
     * @param count 1 or more, for all nodes together; by default 16 to each node
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions maxConnections(int count) {
        ClientOptions options = copy();
        options.maxConnections = positive(count, "connections");
        return options;
    }

    private static int positive(int count, String what) {
        if (count < 1) {
            throw new IllegalArgumentException("the " + what + " must be at least 1: " + count);
        }
        return count;
    }

    /**
     * The name of the client's connections in {@code CLIENT LIST}.
     *
     * @param name 1 to 63 printable ASCII characters without spaces
     * @return new options
     * @throws IllegalArgumentException if it has other characters or another length
     */
    public ClientOptions clientName(String name) {
        if (name.isEmpty() || name.length() > 63 || !name.chars().allMatch(c -> c > 32 && c < 127)) {
            throw new IllegalArgumentException(
                    "the client name must be 1 to 63 printable ASCII characters without spaces: "
                            + name);
        }
        ClientOptions options = copy();
        options.clientName = name;
        return options;
    }
}
