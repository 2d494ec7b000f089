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
            LockOptions.defaults().lease(Duration.ofSeconds(5)).renew(true);

    private static final String HASTY = "?connect_timeout=0.3&command_timeout=0.3&lazy=on";

    /** Acquires it, also if the machine stands still for longer than a hasty client waits. */
    private static Hold insist(HoldfastLock lock) throws InterruptedException {
        for (;;) {
            try {
                return lock.acquire();
            } catch (ConnectionFailedException | LockUnknownException again) {
                // no answer came in time
            }
        }
    }

    @Test
    void aReleaseWithoutAnAnswerEndsTheHoldAndItsRenewal() throws Exception {
        try (Proxy proxy = new Proxy(SERVER.tcpUrl);
                HoldfastClient other = Holdfast.connect(proxy.url() + HASTY)) {
            Hold hold = insist(other.lock(name, SHORT));
            hold.keepAtLeast(Duration.ofMillis(5100));
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
                        Holdfast.connect(proxy.url() + "?connect_timeout=20&command_timeout=0.3")) {
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
