package io.holdfast.spring;

import static io.holdfast.spring.Application.client;
import static io.holdfast.spring.Application.refusal;
import static io.holdfast.spring.Application.start;
import static io.holdfast.spring.Application.unique;
import static io.holdfast.spring.Application.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.HoldfastClient;
import io.holdfast.testing.TestRedis;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;

/** Jobs that every host calls and one runs. */
final class OncePerTest {
    static final AtomicInteger RUNS = new AtomicInteger();
    static final AtomicInteger TICKS = new AtomicInteger();

    @EnableScheduling
    static class Scheduling {}

    static class Nightly {
        @Scheduled(fixedRate = 20)
        @OncePer(value = "1h", name = "${job}")
        void run() {
            RUNS.incrementAndGet();
        }

        @Scheduled(fixedRate = 20)
        void tick() {
            TICKS.incrementAndGet();
        }
    }

    static class Often {
        @Scheduled(fixedRate = 20)
        @OncePer(period = "200ms", name = "${job}")
        void run() {
            RUNS.incrementAndGet();
        }
    }

    static class Called {
        @OncePer("1h")
        public void plain() {
            RUNS.incrementAndGet();
        }

        @OncePer(value = "1h", name = "#{#name}")
        public Optional<String> answer(String name, Exception failure) throws Exception {
            if (failure != null) {
                throw failure;
            }
            return Optional.of("ran");
        }
    }

    /** Returns how long the lock stays held if the run dies. */
    static class Leased {
        private final HoldfastClient client;

        Leased(HoldfastClient client) {
            this.client = client;
        }

        @OncePer(value = "1h", name = "#{#name}")
        public Optional<Duration> lease(String name) {
            return Optional.of(client.lock(name).inspect().remaining());
        }
    }

    private String job;

    @BeforeEach
    void name() {
        job = unique();
        RUNS.set(0);
        TICKS.set(0);
    }

    @Test
    void twoApplicationsRunItOnceInAPeriod() throws Exception {
        Map<String, Object> properties = Map.of("job", job);
        try (var one = start(properties, Scheduling.class, Nightly.class);
                var other = start(properties, Scheduling.class, Nightly.class)) {
            TICKS.set(0);
            until(() -> TICKS.get() >= 20); // the two of both
            assertEquals(1, RUNS.get());
            assertTrue(client(one).lock(job).isLocked());
            assertTrue(other.isActive());
        }
    }

    @Test
    void theNextPeriodHasItsRun() throws Exception {
        Map<String, Object> properties = Map.of("job", job);
        long start = System.nanoTime();
        try (var one = start(properties, Scheduling.class, Often.class);
                var other = start(properties, Scheduling.class, Often.class)) {
            until(() -> RUNS.get() >= 3);
            assertTrue(one.isActive() && other.isActive());
        }
        long periods = (System.nanoTime() - start) / 200_000_000;
        assertTrue(RUNS.get() <= periods + 1, RUNS + " runs in " + periods + " periods");
    }

    @Test
    void aRunThatFailsPassesTheTurnOn() throws Exception {
        IOException failure = new IOException("the job's");
        try (var one = start(Map.of(), Called.class);
                var other = start(Map.of(), Called.class)) {
            Called here = one.getBean(Called.class);
            Called there = other.getBean(Called.class);
            assertEquals(failure, assertThrows(IOException.class, () -> here.answer(job, failure)));
            assertEquals(Optional.of("ran"), there.answer(job, null));
            assertEquals(Optional.empty(), here.answer(job, null));
        }
    }

    @Test
    void itsLockHasTheOptionsOfTheProperties() {
        try (var application = start(Map.of("holdfast.lock.lease", "10m"), Leased.class)) {
            Duration lease = application.getBean(Leased.class).lease(job).orElseThrow();
            assertTrue(lease.compareTo(Duration.ofMinutes(5)) > 0, lease + " left");
            assertTrue(client(application).lock(job).inspect().remaining().toMinutes() > 50);
        }
    }

    static class Base {
        @OncePer("1h")
        public void plain() {}

        @OncePer("1h")
        public void inherited() {
            RUNS.incrementAndGet();
        }
    }

    static class Derived extends Base {
        @Override
        @OncePer(period = "2h")
        public void plain() {
            RUNS.incrementAndGet();
        }
    }

    @Test
    void itsNameIsThatOfTheClassAndTheMethodAndAClassInheritsItsJobs() {
        try (TestRedis redis = TestRedis.start();
                var application =
                        start(Map.of("holdfast.url", redis.url()), Called.class, Derived.class)) {
            Called called = application.getBean(Called.class);
            Derived derived = application.getBean(Derived.class);
            for (int i = 0; i < 2; i++) {
                called.plain();
                derived.plain();
                derived.inherited();
            }
            assertEquals(3, RUNS.get());
            for (String job :
                    List.of(
                            Called.class.getName() + ".plain",
                            Derived.class.getName() + ".plain",
                            Derived.class.getName() + ".inherited")) {
                assertTrue(client(application).lock(job).isLocked(), job);
            }
        }
    }

    // ------------------------------------------------------------- Mistakes

    static class Answers {
        @OncePer("1h")
        public int job() {
            return 1;
        }
    }

    static class NoPeriod {
        @OncePer(name = "x")
        public void job() {}
    }

    static class Zero {
        @OncePer("0s")
        public void job() {}
    }

    static class Twice {
        @OncePer("1h")
        public void job() {}

        @OncePer("1h")
        public void job(int other) {}
    }

    static class Both {
        @OncePer("1h")
        @Locked("x")
        public void job() {}
    }

    static class FinalJob {
        @OncePer("1h")
        public final void job() {}
    }

    @Test
    void mistakesAreToldAtTheStart() {
        Map<Class<?>, List<String>> mistakes =
                Map.of(
                        Answers.class, List.of("Optional"),
                        NoPeriod.class, List.of("period"),
                        Zero.class, List.of("positive"),
                        Twice.class, List.of("another"),
                        Both.class, List.of("both"),
                        FinalJob.class, List.of("final"));
        mistakes.forEach(
                (bean, words) -> {
                    String said = refusal(bean);
                    assertTrue(said.contains("@OncePer on io.holdfast.spring.OncePerTest$"), said);
                    assertTrue(said.contains(bean.getSimpleName() + ".job("), said);
                    words.forEach(word -> assertTrue(said.contains(word), word + ": " + said));
                });
    }
}
