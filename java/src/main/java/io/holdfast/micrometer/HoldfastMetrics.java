package io.holdfast.micrometer;

import io.holdfast.ClientStats;
import io.holdfast.ClosedException;
import io.holdfast.Histogram;
import io.holdfast.HoldfastClient;
import io.holdfast.LockStats;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.lang.ref.WeakReference;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.ToLongFunction;

/**
 * The {@linkplain HoldfastClient#stats() figures} of a client as Micrometer meters, all called
 * {@code holdfast.…}; docs/operations/metrics.md lists them.
 *
 * <pre>{@code
 * new HoldfastMetrics(client).bindTo(registry);
 * }</pre>
 *
 * <p>The tag {@code lock} is the name, if it is counted separately, and otherwise empty, so that a sum
 * over all is the client's. A name gets its meters when it is first seen. {@code holdfast.wait} and {@code
 * holdfast.hold} are timers; their buckets are the gauges {@code holdfast.wait.histogram} and {@code
 * holdfast.hold.histogram} with the tag {@code le}, in seconds and cumulative.
 *
 * <p>This library does not depend on Micrometer: add {@code io.micrometer:micrometer-core} to use
 * this class. The client may be closed or collected while it is bound: its meters then stop
 * changing.
 */
@SuppressWarnings("exports") // users of this class depend on Micrometer themselves
public final class HoldfastMetrics implements MeterBinder {
    /** How long meters reuse the same figures, so that those read together agree. */
    private static final long FRESH_NANOS = TimeUnit.MILLISECONDS.toNanos(20);

    private final WeakReference<HoldfastClient> client;
    private final List<Tag> tags;
    private final List<MeterRegistry> registries = new ArrayList<>();
    private final Set<String> names = new HashSet<>();
    private ClientStats last;
    private long readAt;

    /**
     * Makes the meters of a client.
     *
     * @param client the client to measure
     * @param tags the tags of all its meters, to distinguish several clients
     */
    public HoldfastMetrics(HoldfastClient client, Tag... tags) {
        this.client = new WeakReference<>(Objects.requireNonNull(client, "client"));
        this.tags = List.of(tags);
        this.last = client.stats();
        this.readAt = System.nanoTime();
        this.names.addAll(last.names().keySet());
    }

    @Override
    public synchronized void bindTo(MeterRegistry registry) {
        registries.add(registry);
        count(registry, "connections", tags, ClientStats::connections, "Connections opened");
        count(
                registry,
                "reconnects",
                tags,
                ClientStats::reconnects,
                "Connections opened in place of one that broke");
        bind(registry, "", ClientStats::others);
        names.forEach(name -> bind(registry, name));
    }

    private void bind(MeterRegistry registry, String name) {
        bind(registry, name, all -> all.names().getOrDefault(name, all.others()));
    }

    private void bind(
            MeterRegistry registry, String name, Function<ClientStats, LockStats> lock) {
        List<Tag> with = and(tags, "lock", name);
        gauge(registry, "held", with, of(lock, LockStats::held), "Holds on the server");
        gauge(registry, "waiting", with, of(lock, LockStats::waiting), "Acquires in a queue");
        count(registry, "acquired", with, of(lock, LockStats::acquired), "Acquires that got it");
        count(registry, "queued", with, of(lock, LockStats::queued), "Those of them that queued");
        each(registry, "answered", with, "outcome", all -> lock.apply(all).answered(), "Acquires with another's outcome");
        each(registry, "refused", with, "cause", all -> lock.apply(all).refused(), "Acquires in vain");
        each(registry, "failed", with, "cause", all -> lock.apply(all).failed(), "Acquires that failed");
        count(registry, "released", with, of(lock, LockStats::released), "Holds released");
        count(registry, "kept", with, of(lock, LockStats::kept), "Holds that keep the lock");
        count(registry, "begun", with, of(lock, LockStats::begun), "Calls that began, at most once");
        each(registry, "finished", with, "outcome", all -> lock.apply(all).finished(), "Calls that ended");
        each(registry, "lost", with, "cause", all -> lock.apply(all).lost(), "Holds lost before that");
        count(registry, "renewed", with, of(lock, LockStats::renewed), "Renewals");
        count(registry, "alarms", with, of(lock, LockStats::alarms), "Alarms raised");
        times(registry, "wait", with, all -> lock.apply(all).waits(), "The wait for the lock");
        times(registry, "hold", with, all -> lock.apply(all).holds(), "The time that it was held");
    }

    private static ToLongFunction<ClientStats> of(
            Function<ClientStats, LockStats> lock, ToLongFunction<LockStats> figure) {
        return all -> figure.applyAsLong(lock.apply(all));
    }

    private static List<Tag> and(List<Tag> tags, String key, String value) {
        List<Tag> more = new ArrayList<>(tags);
        more.add(Tag.of(key, value));
        return more;
    }

    private void gauge(
            MeterRegistry registry,
            String name,
            List<Tag> with,
            ToLongFunction<ClientStats> figure,
            String what) {
        Gauge.builder("holdfast." + name, () -> figure.applyAsLong(stats()))
                .tags(with)
                .description(what)
                .register(registry);
    }

    private void count(
            MeterRegistry registry,
            String name,
            List<Tag> with,
            ToLongFunction<ClientStats> figure,
            String what) {
        FunctionCounter.builder("holdfast." + name, this, me -> figure.applyAsLong(me.stats()))
                .tags(with)
                .description(what)
                .register(registry);
    }

    private <C extends Enum<C>> void each(
            MeterRegistry registry,
            String name,
            List<Tag> with,
            String tag,
            Function<ClientStats, Map<C, Long>> figures,
            String what) {
        for (C value : figures.apply(last).keySet()) {
            List<Tag> tagged = and(with, tag, value.name().toLowerCase(Locale.ROOT));
            count(registry, name, tagged, all -> figures.apply(all).get(value), what);
        }
    }

    private void times(
            MeterRegistry registry,
            String name,
            List<Tag> with,
            Function<ClientStats, Histogram> times,
            String what) {
        FunctionTimer.builder(
                        "holdfast." + name,
                        this,
                        me -> times.apply(me.stats()).count(),
                        me -> times.apply(me.stats()).sum().toNanos(),
                        TimeUnit.NANOSECONDS)
                .tags(with)
                .description(what)
                .register(registry);
        for (int i = 0; i <= Histogram.BOUNDS.size(); i++) {
            int end = i + 1;
            gauge(
                    registry,
                    name + ".histogram",
                    and(with, "le", bound(i)),
                    all ->
                            times.apply(all).counts().subList(0, end).stream()
                                    .mapToLong(Long::longValue)
                                    .sum(),
                    what);
        }
    }

    private static String bound(int bucket) {
        if (bucket == Histogram.BOUNDS.size()) {
            return "+Inf";
        }
        Duration bound = Histogram.BOUNDS.get(bucket);
        return BigDecimal.valueOf(bound.toNanos(), 9).stripTrailingZeros().toPlainString();
    }

    private synchronized ClientStats stats() {
        HoldfastClient open = client.get();
        if (open != null && System.nanoTime() - readAt > FRESH_NANOS) {
            try {
                last = open.stats();
                readAt = System.nanoTime();
            } catch (ClosedException e) {
                client.clear();
            }
            for (String name : last.names().keySet()) {
                if (names.add(name)) {
                    registries.forEach(registry -> bind(registry, name));
                }
            }
        }
        return last;
    }
}
