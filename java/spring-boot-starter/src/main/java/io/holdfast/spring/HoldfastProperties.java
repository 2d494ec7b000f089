package io.holdfast.spring;

import io.holdfast.ClientOptions;
import io.holdfast.Hold;
import io.holdfast.LockOptions;
import java.time.Duration;
import java.util.function.BiFunction;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.source.InvalidConfigurationPropertyValueException;

/**
 * The properties {@code holdfast.*}. An option that is not set comes from the URL, or else from the
 * library's defaults; see {@link ClientOptions} and {@link LockOptions}.
 *
 * @param url where Redis is, as in redis://user:password@host:6379/0; see Holdfast.connect(String).
 *     It may name a file or a variable that contains the password.
 * @param lazy whether the application starts without a connection; the first use connects
 * @param connectTimeout time limit to reach the server and log in; by default 2 seconds
 * @param commandTimeout time limit for the answer to one command; by default 2 seconds
 * @param keepAlive silence after which the system asks whether the server is alive; 0: never; by
 *     default 15 seconds
 * @param fenceLife how long the server remembers the last fence of a free lock; by default a day
 * @param clientName name of the connections in CLIENT LIST; by default holdfast
 * @param countNames whether each lock's name has meters of its own
 * @param namesMax how many names may have meters of their own; by default 100
 * @param alarm when to warn of a lock for which many acquires time out
 * @param lock the options of the locks of Locked and OncePer methods and of the lock registry, unless
 *     an annotation overrides them
 * @param lockRegistry the lock registry of Spring Integration
 */
@ConfigurationProperties("holdfast")
public record HoldfastProperties(
        String url,
        @DefaultValue("true") boolean lazy,
        Duration connectTimeout,
        Duration commandTimeout,
        Duration keepAlive,
        Duration fenceLife,
        String clientName,
        @DefaultValue("false") boolean countNames,
        Integer namesMax,
        @DefaultValue Alarm alarm,
        @DefaultValue Lock lock,
        @DefaultValue LockRegistry lockRegistry) {

    /**
     * When to warn of a lock for which many acquires time out.
     *
     * @param timeouts how many acquires of one lock must time out within the window; by default there
     *     is no alarm
     * @param window the period
     */
    public record Alarm(Integer timeouts, @DefaultValue("1m") Duration window) {}

    /**
     * The options of the locks, unless an annotation overrides them.
     *
     * @param timeout how long a method with Locked waits; by default without limit
     * @param lease how long a lock stays held after its holder is gone; by default 10 seconds
     * @param renew whether holds are renewed until they are released; by default they are
     * @param maxHold the time after which a hold ends at the latest; by default there is no limit
     * @param heal whether an acquire sets the lease on another library's lock without an expiry
     * @param replicas the number of replicas that must confirm an acquire before it counts
     * @param replicaTimeout time limit for these replicas; by default 1 second
     */
    public record Lock(
            Duration timeout,
            Duration lease,
            Boolean renew,
            Duration maxHold,
            @DefaultValue("false") boolean heal,
            @DefaultValue("0") int replicas,
            Duration replicaTimeout) {

        /** Returns the timeout; null: none is set. */
        Duration patience() {
            if (timeout != null && timeout.isNegative()) {
                throw wrong("lock.timeout", timeout, "it must not be negative");
            }
            return timeout == null ? Hold.FOREVER : timeout;
        }

        /** Returns the library's options. */
        LockOptions options() {
            LockOptions made = LockOptions.defaults().heal(heal);
            made = set(made, "lock.lease", lease, LockOptions::lease);
            made = set(made, "lock.renew", renew, LockOptions::renew);
            made = set(made, "lock.max-hold", maxHold, LockOptions::maxHold);
            made = set(made, "lock.replicas", replicas, LockOptions::replicas);
            return set(
                    made,
                    "lock.replica-timeout",
                    replicaTimeout,
                    (options, time) -> options.replicas(replicas, time));
        }
    }

    /**
     * The lock registry of Spring Integration.
     *
     * @param prefix the text before each key, so that the locks of messages do not collide with others
     */
    public record LockRegistry(@DefaultValue("spring-integration:") String prefix) {}

    /** Returns the library's options. */
    ClientOptions options() {
        ClientOptions made =
                ClientOptions.defaults().lazy(lazy).countNames(countNames).closeAtExit(false);
        made = set(made, "connect-timeout", connectTimeout, ClientOptions::connectTimeout);
        made = set(made, "command-timeout", commandTimeout, ClientOptions::commandTimeout);
        made = set(made, "keep-alive", keepAlive, ClientOptions::keepAlive);
        made = set(made, "fence-life", fenceLife, ClientOptions::fenceLife);
        made = set(made, "client-name", clientName, ClientOptions::clientName);
        made = set(made, "names-max", namesMax, ClientOptions::namesMax);
        return set(
                made,
                "alarm.timeouts",
                alarm.timeouts(),
                (options, count) -> options.alarm(count, alarm.window()));
    }

    private static <O, T> O set(O options, String name, T value, BiFunction<O, T, O> option) {
        if (value == null) {
            return options;
        }
        try {
            return option.apply(options, value);
        } catch (IllegalArgumentException e) {
            throw wrong(name, value, e.getMessage());
        }
    }

    private static RuntimeException wrong(String name, Object value, String why) {
        return new InvalidConfigurationPropertyValueException("holdfast." + name, value, why);
    }

    /** Leaves the URL out, which may contain a password. */
    @Override
    public String toString() {
        return "HoldfastProperties";
    }
}
