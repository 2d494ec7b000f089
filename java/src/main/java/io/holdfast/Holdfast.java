package io.holdfast;

/** Where everything begins: {@link #connect(String)}. */
public final class Holdfast {
    static final System.Logger LOG = System.getLogger("io.holdfast");

    private Holdfast() {}

    /**
     * Opens a client with the default options: connects, logs in, and sees that the server is Redis
     * 6.2 or newer.
     *
     * @param url one of these; percent-encode what is special in a URL
     *     <ul>
     *       <li>{@code redis://[[user]:password@]host[:port][/database]}
     *       <li>{@code unix://[[user]:password@]/path/to/socket}
     *       <li>{@code redis+sentinel://[[user]:password@]host[:port],.../service[/database]}
     *       <li>{@code redis+cluster://[[user]:password@]host[:port],...}
     *     </ul>
     *     With {@code rediss} for {@code redis}, over TLS; the server's certificate and name are
     *     checked. After a {@code ?} there may be options: {@code db}; {@code password_file} or
     *     {@code password_env}, where the password is read anew for each connection; for TLS {@code
     *     tls_ca} (a file or folder; by default the system's), {@code tls_cert} and {@code tls_key}
     *     of the client, {@code tls_verify=off}; and the {@link ClientOptions} {@code
     *     connect_timeout}, {@code command_timeout}, {@code keepalive}, {@code max_connections},
     *     {@code client_name}
     * @return the client; close it at the end
     * @throws IllegalArgumentException if the URL is wrong
     * @throws UnsupportedException if its scheme is not supported, or the server is too old
     * @throws ConnectionFailedException if the server cannot be reached in time
     * @throws AuthenticationException if the server refuses the user or the password
     * @throws ServerException if the server refuses commands
     * @throws ProtocolException if what answers is not a Redis server
     * @throws UnsatisfiedLinkError if there is no native library for this platform
     */
    public static HoldfastClient connect(String url) {
        return connect(url, ClientOptions.defaults());
    }

    /**
     * Opens a client, as {@link #connect(String)} does, with options.
     *
     * @param url where the server is, see {@link #connect(String)}
     * @param options timeouts and the like
     * @return the client; close it at the end
     */
    public static HoldfastClient connect(String url, ClientOptions options) {
        return new HoldfastClient(url, options);
    }

    /**
     * The version of the native library in use.
     *
     * @return for example {@code 0.1.0}
     */
    public static String version() {
        return Core.hf_version();
    }
}
