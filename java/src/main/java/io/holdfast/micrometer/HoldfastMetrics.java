package io.holdfast.micrometer;

import io.holdfast.ClientStats;
import io.holdfast.ClosedException;
import io.holdfast.HoldfastClient;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;

/**
 * The {@linkplain HoldfastClient#stats() figures} of a client as Micrometer meters, all called
 * {@code holdfast.…}.
 *
 * <pre>{@code
 * new HoldfastMetrics(client).bindTo(registry);
 * }</pre>
 *
 * <p>This library does not depend on Micrometer: add {@code io.micrometer:micrometer-core} to use
 * this class. The client may be closed or collected while it is bound: its meters then stop
 * changing.
 */
@SuppressWarnings("exports") // users of this class depend on Micrometer themselves
public final class HoldfastMetrics implements MeterBinder {
    private final WeakReference<HoldfastClient> client;
    private final List<Tag> tags;
    private volatile ClientStats last;

    /**
     * The meters of a client.
     *
     * @param client the client to measure
     * @param tags the tags of all its meters, to tell several clients apart
     */
    public HoldfastMetrics(HoldfastClient client, Tag... tags) {
        this.client = new WeakReference<>(Objects.requireNonNull(client, "client"));
        this.tags = List.of(tags);
        this.last = client.stats();
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        gauge(registry, "held", ClientStats::held, "Holds that may still be on the server");
        gauge(registry, "waiting", ClientStats::waiting, "Acquires in a queue");
        count(registry, "acquired", ClientStats::acquired, "Acquires that got the lock");
        count(registry, "refused", ClientStats::refused, "Acquires that did not get it");
        count(registry, "unknown", ClientStats::unknown, "Acquires whose answer was lost");
        count(registry, "released", ClientStats::released, "Holds that a call released");
        count(registry, "lost", ClientStats::lost, "Holds lost before their release");
        count(registry, "renewed", ClientStats::renewed, "Renewals in the background");
        FunctionTimer.builder(
                        "holdfast.wait",
                        this,
                        me -> me.stats().waited(),
                        me -> me.stats().waitedTime().toNanos(),
                        TimeUnit.NANOSECONDS)
                .tags(tags)
                .description("The wait of acquires that got the lock")
                .register(registry);
    }

    private void gauge(
            MeterRegistry registry, String name, ToLongFunction<ClientStats> figure, String what) {
        Gauge.builder("holdfast." + name, () -> figure.applyAsLong(stats()))
                .tags(tags)
                .description(what)
                .register(registry);
    }

    private void count(
            MeterRegistry registry, String name, ToLongFunction<ClientStats> figure, String what) {
        FunctionCounter.builder("holdfast." + name, this, me -> figure.applyAsLong(me.stats()))
                .tags(tags)
                .description(what)
                .register(registry);
    }

    private ClientStats stats() {
        HoldfastClient open = client.get();
        if (open != null) {
            try {
                last = open.stats();
            } catch (ClosedException e) {
                client.clear();
            }
        }
        return last;
    }
}
