package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import org.junit.jupiter.api.Test;

/** A release that keeps the lock, while no answer comes. */
final class KeepTest extends RedisTest {
    private static final LockOptions SHORT =
            LockOptions.defaults().lease(Duration.ofMillis(1500)).renew(true);

    private static final String TIMES = "?connect_timeout=0.3&command_timeout=0.3";

    @Test
    void aReleaseWithoutAnAnswerEndsTheHoldAndItsRenewal() throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other = Holdfast.connect(proxy.url() + TIMES)) {
            Hold hold = other.lock(name, SHORT).acquire();
            hold.keepAtLeast(Duration.ofMillis(1600));
            proxy.hold(Proxy.Way.REQUESTS);
            assertThrows(HoldfastException.class, hold::close);
            assertFalse(hold.isValid());
            assertEquals(0, other.stats().all().held());
            hold.close(); // it is over
            proxy.letGo(); // what was sent arrives late, and shortens or keeps
            Async.until(() -> !lock.isLocked());
        }
    }

    @Test
    void aReleaseThatIsAnsweredLateKeepsTheLock() throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other =
                        Holdfast.connect(proxy.url() + "?connect_timeout=2&command_timeout=0.3")) {
            Hold hold = other.lock(name).acquire();
            hold.keepAtLeast(Duration.ofHours(1));
            proxy.hold(Proxy.Way.ANSWERS);
            Async<Boolean> closing =
                    Async.start(
                            () -> {
                                hold.close();
                                return true;
                            });
            proxy.awaitCaught();
            Thread.sleep(600); // the first try has ended
            proxy.letGo();
            assertTrue(closing.get());
        }
        long left = redis.pttl(name);
        assertTrue(left > 3_500_000 && left <= 3_600_000, left + " ms");
    }
}
