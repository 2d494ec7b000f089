package io.holdfast;

import java.time.Duration;
import java.util.ResourceBundle;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** A program of its own, for {@link ProcessTest}, whose logger throws: an appender that is closed, say. */
public final class BrokenLog extends System.LoggerFinder {
    /** Java makes it. */
    public BrokenLog() {}

    @Override
    public System.Logger getLogger(String name, Module module) {
        return new System.Logger() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public boolean isLoggable(Level level) {
                return name.equals("io.holdfast");
            }

            @Override
            public void log(Level level, ResourceBundle bundle, String text, Throwable thrown) {
                fail();
            }

            @Override
            public void log(Level level, ResourceBundle bundle, String format, Object... given) {
                fail();
            }

            private void fail() {
                if (isLoggable(Level.ALL)) {
                    throw new IllegalStateException("the log is closed");
                }
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        ClientOptions options = ClientOptions.defaults().alarm(1, Duration.ofHours(1));
        try (HoldfastClient client = Holdfast.connect(arguments[0], options)) {
            HoldfastLock lock = client.lock(arguments[1]);
            try (Hold hold = lock.acquireAsync().get(20, TimeUnit.SECONDS)) {
                lock.tryLock(1, TimeUnit.NANOSECONDS); // an alarm
            }
            lock.acquireAsync().get(20, TimeUnit.SECONDS).close();
            CountDownLatch terms = new CountDownLatch(2);
            Leader leader =
                    client.leader(
                            arguments[1] + "leader",
                            fence -> {
                                terms.countDown();
                                throw new IllegalStateException("no term of mine ends well");
                            },
                            () -> {},
                            () -> {});
            leader.start();
            System.out.print(terms.await(20, TimeUnit.SECONDS) ? "done" : "it leads for ever");
            leader.close();
        }
    }
}
