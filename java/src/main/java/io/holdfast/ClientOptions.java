package io.holdfast;

import java.time.Duration;

/**
 * How a client talks to its server. Immutable: every method answers new options.
 *
 * <pre>{@code
 * Holdfast.connect(url, ClientOptions.defaults().connectTimeout(Duration.ofMillis(500)))
 * }</pre>
 */
public final class ClientOptions {
    private static final ClientOptions DEFAULTS = new ClientOptions(0, 0, 0);

    /** As in hf_client_options: 0 is the library's choice, here and below. */
    final int idleConnections;
    final long connectTimeoutMillis;
    final long commandTimeoutMillis;

    private ClientOptions(
            int idleConnections, long connectTimeoutMillis, long commandTimeoutMillis) {
        this.idleConnections = idleConnections;
        this.connectTimeoutMillis = connectTimeoutMillis;
        this.commandTimeoutMillis = commandTimeoutMillis;
    }

    /**
     * The defaults.
     *
     * @return two seconds to connect, two seconds for each answer, 16 idle connections
     */
    public static ClientOptions defaults() {
        return DEFAULTS;
    }

    /**
     * How long reaching the server and logging in may take.
     *
     * @param timeout positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions connectTimeout(Duration timeout) {
        return new ClientOptions(
                idleConnections, Millis.positive(timeout, "connect timeout"), commandTimeoutMillis);
    }

    /**
     * How long the answer to one command may take.
     *
     * @param timeout positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions commandTimeout(Duration timeout) {
        return new ClientOptions(
                idleConnections, connectTimeoutMillis, Millis.positive(timeout, "command timeout"));
    }

    /**
     * How many idle connections the client keeps. It opens more when more threads need one.
     *
     * @param count 1 or more
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions idleConnections(int count) {
        if (count < 1) {
            throw new IllegalArgumentException("the idle connections must be at least 1: " + count);
        }
        return new ClientOptions(count, connectTimeoutMillis, commandTimeoutMillis);
    }
}
