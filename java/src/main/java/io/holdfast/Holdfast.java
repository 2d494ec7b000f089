package io.holdfast;

import io.holdfast.internal.core.Core;
import io.holdfast.internal.redis.RedisClient;
import java.util.regex.Pattern;

/** The entry point: {@link #connect(String)} opens a client. */
public final class Holdfast {
    /**
     * The characters with a meaning in a name, and the h of ":hf1:q", the end of a lock's own keys.
     */
    private static final Pattern SPECIAL = Pattern.compile("[%{}]|(?<![^:])h(?=f[0-9]+(?::|\\z))");

    private Holdfast() {}

    /**
     * Opens a client with the default options: connects, logs in, and checks that the server is
     * Redis 6.2 or newer.
     *
     * @param url one of these; percent-encode the characters special in a URL
     *     <ul>
     *       <li>{@code redis://[[user]:password@]host[:port][/database]}
     *       <li>{@code unix://[[user]:password@]/path/to/socket}
     *       <li>{@code redis+sentinel://[[user]:password@]host[:port],.../service[/database]}
     *       <li>{@code redis+cluster://[[user]:password@]host[:port],...}
     *       <li>{@code redis+quorum://[[user]:password@]host[:port],...[/database]}: 3 to 9
     *           independent masters, of which a majority must agree
     *     </ul>
     *     {@code rediss} instead of {@code redis} means TLS; the client checks the server's
     *     certificate and name. Options follow a {@code ?}: {@code db}; {@code password_file} or
     *     {@code password_env}, from which each new connection reads the password; for TLS {@code
     *     tls_ca} (a file or folder; by default the system's), the client's {@code tls_cert} and
     *     {@code tls_key}, and {@code tls_verify=off}; and the {@link ClientOptions} {@code
     *     connect_timeout}, {@code command_timeout}, {@code keepalive}, {@code client_name},
     *     {@code lazy=on}, {@code fence_life}; {@code replicas}, the default of {@link
     *     LockOptions#replicas}; and for several masters {@code quarantine}
     * @return the client; close it at the end
     * @throws IllegalArgumentException if the URL is wrong
     * @throws UnsupportedException if its scheme is not supported, or the server is too old
     * @throws ConnectionFailedException if the server cannot be reached in time
     * @throws AuthenticationException if the server refuses the user or the password
     * @throws ServerException if the server refuses commands
     * @throws ProtocolException if it is not a Redis server
     * @throws UnsatisfiedLinkError if there is no native library for this platform
     */
    public static HoldfastClient connect(String url) {
        return connect(url, ClientOptions.defaults());
    }

    /**
     * Opens a client like {@link #connect(String)}, with options.
     *
     * @param url the server's URL, see {@link #connect(String)}
     * @param options timeouts and other settings
     * @return the client; close it at the end
     */
    public static HoldfastClient connect(String url, ClientOptions options) {
        return new RedisClient(url, options);
    }

    /**
     * Makes text that a user gave safe as a part of a lock's name, as Python's {@code
     * holdfast.quote()} does.
     *
     * <pre>{@code
     * client.lock("report:" + Holdfast.quote("a}b"))
     * }</pre>
     *
     * <p>A name may not have a <code>}</code> without a <code>{tag}</code>, nor end like a lock's
     * own keys, as in {@code :hf1:q}. This percent-encodes only the characters that could cause
     * that; different texts stay different.
     *
     * @param text any text
     * @return a part of a name
     */
    public static String quote(String text) {
        return SPECIAL.matcher(text)
                .replaceAll(found -> "%%%02X".formatted((int) found.group().charAt(0)));
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
