package io.holdfast;

import io.holdfast.internal.core.ClientSettings;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/**
 * The options of a client. Immutable: every method returns new options. An option that is
 * not set here comes from the URL, or else is the library's choice.
 *
 * <pre>{@code
 * Holdfast.connect(url, ClientOptions.defaults().connectTimeout(Duration.ofMillis(500)))
 * }</pre>
 */
public final class ClientOptions {
    private static final ClientOptions DEFAULTS = new ClientOptions(new ClientSettings());

    static {
        ClientSettings.openBy(options -> ((ClientOptions) options).settings);
    }

    private final ClientSettings settings;

    private ClientOptions(ClientSettings settings) {
        this.settings = settings;
    }

    /** Returns new options with one change. */
    private ClientOptions with(Consumer<ClientSettings> change) {
        return new ClientOptions(settings.with(change));
    }

    /**
     * The defaults.
     *
     * @return two seconds to connect, two seconds for each answer, a keep-alive of 15 seconds, the
     *     name "holdfast", and the close at the JVM's exit
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
        long value = Millis.positive(timeout, "connect timeout");
        return with(o -> o.connectTimeoutMillis = value);
    }

    /**
     * The time limit for the answer to one command.
     *
     * @param timeout positive; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is not positive
     */
    public ClientOptions commandTimeout(Duration timeout) {
        long value = Millis.positive(timeout, "command timeout");
        return with(o -> o.commandTimeoutMillis = value);
    }

    /**
     * The silence after which the system asks whether the other end is alive (TCP keep-alive).
     *
     * @param silence positive, rounded up to seconds; or zero: never
     * @return new options
     * @throws IllegalArgumentException if it is negative
     */
    public ClientOptions keepAlive(Duration silence) {
        long value = silence.isZero() ? Millis.ENDLESS : Millis.positive(silence, "keep-alive");
        return with(o -> o.keepAliveMillis = value);
    }

    /**
     * How long the server remembers the last fence of a lock that is free; by default a day.
     * This takes one small key for each lock name. After that time, a fence still grows with the
     * server's clock.
     *
     * @param life a second or more; rounded up to milliseconds
     * @return new options
     * @throws IllegalArgumentException if it is less than a second
     */
    public ClientOptions fenceLife(Duration life) {
        long value = Millis.positive(life, "fence life");
        if (value < 1000) {
            throw new IllegalArgumentException("the fence life must be at least 1 s: " + life);
        }
        return with(o -> o.fenceLifeMillis = value);
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
        boolean printable = name.chars().allMatch(c -> c > 32 && c < 127);
        if (name.isEmpty() || name.length() > 63 || !printable) {
            throw new IllegalArgumentException(
                    "the client name must be 1 to 63 printable ASCII characters without spaces: "
                            + name);
        }
        return with(o -> o.clientName = name);
    }

    /**
     * The executor that completes futures, and runs their dependent actions and those
     * of {@link Hold#onLost}. If the executor refuses an action, the client's own threads run it.
     *
     * @param executor runs actions on threads of its own, never on the thread that submits them; by
     *     default a few daemon threads of the client, which start when they are needed
     * @return new options
     */
    public ClientOptions executor(Executor executor) {
        Objects.requireNonNull(executor, "executor");
        return with(o -> o.executor = executor);
    }

    /**
     * Whether {@link Holdfast#connect(String, ClientOptions)} only checks the URL, and the first
     * call connects, within its own time limit. So a program can start while its Redis is down.
     *
     * @param lazy by default the value of the URL, or else false
     * @return new options
     */
    public ClientOptions lazy(boolean lazy) {
        return with(o -> o.lazy = lazy ? Core.HF_ON : Core.HF_OFF);
    }

    /**
     * The alarm: as soon as {@code timeouts} acquires of one lock have timed out within the window, a
     * warning is logged, and {@link #onAlarm} is called; once in a window for each lock. So a
     * stuck holder is noticed where many callers wait for it.
     *
     * @param timeouts 1 or more; by default there is no alarm
     * @param window positive; rounded up to milliseconds; accurate to an eighth
     * @return new options
     * @throws IllegalArgumentException if either is not positive
     */
    public ClientOptions alarm(int timeouts, Duration window) {
        int count = positive(timeouts, "timeouts");
        long millis = Millis.positive(window, "alarm's window");
        return with(
                o -> {
                    o.alarmTimeouts = count;
                    o.alarmWindowMillis = millis;
                });
    }

    /**
     * The action for each alarm, even of a lock with {@linkplain LockOptions#alarm its own alarm}.
     * The executor runs it.
     *
     * @param action by default there is none, and the alarm is only logged
     * @return new options
     */
    public ClientOptions onAlarm(Consumer<? super Alarm> action) {
        Objects.requireNonNull(action, "action");
        return with(
                o ->
                        o.onAlarm =
                                (name, timeouts, message) ->
                                        action.accept(new Alarm(name, timeouts, message)));
    }

    /**
     * The action for renewals that begin to fail, before any hold is lost; for renewals that work
     * again; and for each failover. The executor runs it. The logger {@code io.holdfast} gets the same
     * as warnings, even without an action.
     *
     * @param action by default there is none, and trouble is only logged
     * @return new options
     */
    public ClientOptions onTrouble(Consumer<? super TroubleNotice> action) {
        Objects.requireNonNull(action, "action");
        return with(
                o ->
                        o.onTrouble =
                                (kind, holds, leftMillis, message) ->
                                        action.accept(
                                                new TroubleNotice(
                                                        TroubleNotice.Kind.valueOf(kind),
                                                        holds,
                                                        kind.equals("AT_RISK")
                                                                ? Duration.ofMillis(leftMillis)
                                                                : null,
                                                        message)));
    }

    /**
     * Whether each lock's name is counted separately in {@link HoldfastClient#stats()}.
     *
     * @param count false by default; {@link LockOptions#countName} overrides it
     * @return new options
     */
    public ClientOptions countNames(boolean count) {
        return with(o -> o.countNames = count);
    }

    /**
     * How many names may be counted separately. Further names are counted together, so that a name
     * for each order does not fill the memory.
     *
     * @param most 1 to 10000; by default 100
     * @return new options
     * @throws IllegalArgumentException if it is not positive; {@link Holdfast#connect(String,
     *     ClientOptions)} refuses a number above 10000
     */
    public ClientOptions namesMax(int most) {
        int value = positive(most, "names");
        return with(o -> o.namesMax = value);
    }

    /**
     * Whether a client that is open when the JVM shuts down is closed then, so that its locks
     * become free at once and not at the end of their leases. Threads that still run at that moment
     * lose their locks. Turn it off if shutdown hooks of your own need the client, and close it
     * there.
     *
     * @param close true by default
     * @return new options
     */
    public ClientOptions closeAtExit(boolean close) {
        return with(o -> o.closeAtExit = close);
    }
}
