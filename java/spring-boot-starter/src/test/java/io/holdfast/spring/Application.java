package io.holdfast.spring;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.HoldfastClient;
import io.holdfast.testing.TestRedis;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.autoconfigure.context.PropertyPlaceholderAutoConfiguration;
import org.springframework.boot.autoconfigure.orm.jpa.HibernateJpaAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;

/** Real applications on a real Redis, and what their tests need. */
final class Application {
    private static final AtomicLong NUMBERS = new AtomicLong(System.nanoTime());
    private static TestRedis redis;

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration(exclude = HibernateJpaAutoConfiguration.class) // which is slow to start
    static class Everything {}

    private Application() {}

    /** The server of all tests, which none of them ends. */
    static synchronized String url() {
        String given = System.getenv("HOLDFAST_TEST_URL");
        if (given != null) {
            return given;
        }
        if (redis == null) {
            redis = TestRedis.start(); // ends with this JVM
        }
        return redis.url();
    }

    /** A name for one test. */
    static String unique() {
        return "spring:" + NUMBERS.incrementAndGet();
    }

    /** Starts one with these beans, on that server. */
    static ConfigurableApplicationContext start(Map<String, Object> properties, Class<?>... beans) {
        return start(Everything.class, properties, beans);
    }

    /** With another configuration than that of {@link Everything}. */
    static ConfigurableApplicationContext start(
            Class<?> configuration, Map<String, Object> properties, Class<?>... beans) {
        Class<?>[] sources = Arrays.copyOf(beans, beans.length + 1);
        sources[beans.length] = configuration;
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("holdfast.url", url() + "?connect_timeout=20"); // the machine may stand still
        all.put("spring.main.banner-mode", "off");
        all.put("spring.jmx.enabled", "false");
        all.putAll(properties);
        SpringApplication application = new SpringApplication(sources);
        application.setWebApplicationType(WebApplicationType.NONE);
        application.setRegisterShutdownHook(false);
        // The highest of all: as on the command line.
        return application.run(
                all.entrySet().stream()
                        .map(each -> "--" + each.getKey() + "=" + each.getValue())
                        .toArray(String[]::new));
    }

    /** What is said when an application with this bean does not start. */
    static String refusal(Class<?> bean) {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        new ApplicationContextRunner()
                .withConfiguration(
                        AutoConfigurations.of(
                                HoldfastAutoConfiguration.class,
                                PropertyPlaceholderAutoConfiguration.class))
                .withPropertyValues("holdfast.url=" + url())
                .withUserConfiguration(bean)
                .run(application -> failure.set(application.getStartupFailure()));
        assertNotNull(failure.get(), bean + " was taken");
        return said(failure.get());
    }

    static HoldfastClient client(ConfigurableApplicationContext application) {
        return application.getBean(HoldfastClient.class);
    }

    /** Starts it in a thread of its own. */
    static <T> FutureTask<T> elsewhere(Callable<T> work) {
        FutureTask<T> task = new FutureTask<>(work);
        Thread thread = new Thread(task, "elsewhere");
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** The result, or what the work threw. */
    static <T> T join(FutureTask<T> task) throws Exception {
        try {
            return task.get(20, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw e;
        } catch (TimeoutException e) {
            throw new AssertionError("the thread has not ended", e);
        }
    }

    /** Waits until it is true; it must be so in good time. */
    static void until(BooleanSupplier isTrue) throws InterruptedException {
        long start = System.nanoTime();
        while (!isTrue.getAsBoolean()) {
            assertTrue(System.nanoTime() - start < 20_000_000_000L, "waited too long");
            Thread.sleep(2);
        }
    }

    /** The messages of an exception, its causes and what it suppressed. */
    static String said(Throwable e) {
        StringBuilder said = new StringBuilder();
        for (Throwable each = e; each != null; each = each.getCause()) {
            said.append(each).append('\n');
            for (Throwable suppressed : each.getSuppressed()) {
                said.append(said(suppressed));
            }
        }
        return said.toString();
    }
}
