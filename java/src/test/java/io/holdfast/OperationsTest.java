package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.micrometer.HoldfastMetrics;
import io.micrometer.core.instrument.Tag;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** docs/operations asks for what Micrometer gives Prometheus. */
final class OperationsTest extends RedisTest {
    private static final Path FOLDER = Path.of("..", "docs", "operations");
    private static final Set<String> PYTHONS =
            Set.of(
                    "holdfast_unconfirmed_total",
                    "holdfast_wait_seconds_bucket",
                    "holdfast_hold_seconds_bucket");

    @Test
    void theDashboardAndTheAlertsAskForWhatMicrometerExports() throws Exception {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        new HoldfastMetrics(client, Tag.of("client", "main")).bindTo(registry);
        client.lock(name, LockOptions.defaults().countName(true)).acquire().close();
        Thread.sleep(50);
        registry.scrape(); // the name is seen
        String text = registry.scrape();
        assertTrue(
                text.contains("holdfast_acquired_total{client=\"main\",lock=\"" + name + "\"} 1.0"),
                text);
        Set<String> asked = new TreeSet<>();
        for (String file : Set.of("dashboard.json", "alerts.yml")) {
            Pattern.compile("holdfast_\\w+")
                    .matcher(Files.readString(FOLDER.resolve(file)))
                    .results()
                    .map(MatchResult::group)
                    .forEach(asked::add);
        }
        asked.removeAll(PYTHONS);
        assertTrue(asked.size() > 15, asked.toString());
        for (String metric : asked) {
            assertTrue(text.contains("\n" + metric + "{"), metric + " is not in\n" + text);
        }
        for (RefusalCause cause : RefusalCause.values()) {
            String label = "cause=\"" + cause.name().toLowerCase() + "\"";
            assertTrue(text.contains("holdfast_refused_total{" + label), label);
        }
        assertTrue(text.contains("holdfast_lost_total{cause=\"gone\",client=\"main\",lock=\"\"} 0.0"), text);
        assertTrue(
                text.contains(
                        "holdfast_hold_histogram{client=\"main\",le=\"+Inf\",lock=\"" + name + "\"} 1.0"),
                text);
    }
}
