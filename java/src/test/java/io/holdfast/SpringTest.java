package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** The recipe of docs/guides/periodic.md, with the real scheduler of two applications. */
final class SpringTest extends RedisTest {
    @Configuration(proxyBeanMethods = false)
    @EnableScheduling
    static class Scheduling {}

    /** A bean of each application. */
    static final class Report {
        private final HoldfastClient client;
        private final String name;
        private final Duration period;
        private final AtomicInteger runs;
        private final AtomicInteger calls = new AtomicInteger();

        Report(HoldfastClient client, String name, Duration period, AtomicInteger runs) {
            this.client = client;
            this.name = name;
            this.period = period;
            this.runs = runs;
        }

        @Scheduled(fixedRate = 20)
        void report() {
            client.oncePer(name, period, this::make).run();
            calls.incrementAndGet();
        }

        private void make() {
            runs.incrementAndGet();
        }
    }

    private Report start(
            AnnotationConfigApplicationContext app, Duration period, AtomicInteger runs) {
        Report report = new Report(connect(), name, period, runs);
        app.register(Scheduling.class);
        app.registerBean(HoldfastClient.class, () -> report.client); // the context closes it
        app.registerBean(Report.class, () -> report);
        app.refresh();
        return report;
    }

    @Test
    void twoApplicationsRunItOnceInAPeriod() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        try (var one = new AnnotationConfigApplicationContext();
                var other = new AnnotationConfigApplicationContext()) {
            Report here = start(one, Duration.ofHours(1), runs);
            Report there = start(other, Duration.ofHours(1), runs);
            Async.until(() -> here.calls.get() >= 5 && there.calls.get() >= 5);
            assertEquals(1, runs.get());
        }
    }

    @Test
    void theNextPeriodHasItsRun() throws Exception {
        AtomicInteger runs = new AtomicInteger();
        long start = System.nanoTime();
        try (var one = new AnnotationConfigApplicationContext();
                var other = new AnnotationConfigApplicationContext()) {
            start(one, Duration.ofMillis(200), runs);
            start(other, Duration.ofMillis(200), runs);
            Async.until(() -> runs.get() >= 3);
        }
        long periods = Duration.ofNanos(System.nanoTime() - start).toMillis() / 200;
        assertEquals(runs.get(), Math.min(runs.get(), periods + 1), "at most one in each");
    }
}
