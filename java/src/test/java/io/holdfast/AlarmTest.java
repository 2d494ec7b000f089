package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Many acquires of one lock time out. */
final class AlarmTest extends RedisTest {
    private static final Duration HOUR = Duration.ofHours(1);

    private final List<Alarm> told = new CopyOnWriteArrayList<>();

    private static void timeOut(HoldfastLock lock, int times) throws InterruptedException {
        for (int i = 0; i < times; i++) {
            assertFalse(lock.tryLock(30, TimeUnit.MILLISECONDS));
        }
    }

    @Test
    void theAlarmNamesTheLockOnceAndSaysWhoHoldsIt() throws Exception {
        ClientOptions options = ClientOptions.defaults().alarm(3, HOUR).onAlarm(told::add);
        stranger.lock();
        try (HoldfastClient alarmed = Holdfast.connect(url(), options)) {
            HoldfastLock mine = alarmed.lock(name);
            timeOut(mine, 2);
            assertEquals(0, alarmed.stats().all().alarms());
            timeOut(mine, 2); // and not again within the hour
            until(() -> !told.isEmpty());
            assertFalse(mine.tryLock(1, TimeUnit.NANOSECONDS)); // a try alone counts too
            assertThrows(LockTimeoutException.class, () -> mine.acquire(Duration.ofMillis(1)));
            assertEquals(1, alarmed.stats().all().alarms());
            assertEquals(6, alarmed.stats().all().refused().get(RefusalCause.TIMEOUT));
        } finally {
            stranger.unlock();
        }
        assertEquals(1, told.size());
        assertEquals(name, told.get(0).name());
        assertEquals(3, told.get(0).timeouts());
        String message = told.get(0).message();
        assertTrue(message.startsWith("3 acquires timed out within 3600 s: "), message);
        assertTrue(message.contains("at last by 'stranger'"), message);
    }

    /** A program that says nothing itself. */
    static final class Silent {
        public static void main(String[] arguments) throws InterruptedException {
            ClientOptions options = ClientOptions.defaults().alarm(2, HOUR);
            try (HoldfastClient client = Holdfast.connect(arguments[0], options)) {
                for (int i = 0; i < 4; i++) {
                    client.lock(arguments[1]).tryLock(1, TimeUnit.MILLISECONDS);
                }
            }
        }
    }

    @Test
    void itIsLoggedOnceWithoutAnAction() throws Exception {
        stranger.lock();
        String said = Jvm.run(List.of(), Jvm.program(Silent.class), url(), name).output();
        stranger.unlock();
        assertEquals(2, said.split("WARNING: 2 acquires timed out within 3600 s", -1).length, said);
    }

    @Test
    void triesAloneRaiseIt() throws Exception {
        HoldfastLock mine = client.lock(name, LockOptions.defaults().alarm(2, HOUR));
        stranger.lock();
        for (int i = 0; i < 2; i++) {
            assertFalse(mine.tryLock(1, TimeUnit.NANOSECONDS));
        }
        stranger.unlock();
        assertEquals(1, client.stats().all().alarms());
    }

    @Test
    void aLockMayHaveItsOwnOrNone() throws Exception {
        ClientOptions options = ClientOptions.defaults().alarm(1, HOUR).onAlarm(told::add);
        stranger.lock();
        try (HoldfastClient alarmed = Holdfast.connect(url(), options)) {
            timeOut(alarmed.lock(name, LockOptions.defaults().noAlarm()), 1);
            timeOut(alarmed.lock(name, LockOptions.defaults().alarm(2, HOUR)), 2);
            until(() -> !told.isEmpty());
        }
        stranger.unlock();
        assertEquals(List.of(2L), told.stream().map(Alarm::timeouts).toList());
    }

    @Test
    void anActionThatFailsOrWaitsForTheLockDoesNoHarm() throws Exception {
        ClientOptions options =
                ClientOptions.defaults()
                        .lazy(true)
                        .alarm(1, HOUR)
                        .onAlarm(
                                alarm -> {
                                    told.add(alarm);
                                    client.lock(alarm.name()).acquireAsync(Duration.ofSeconds(20)).join().close();
                                    throw new IllegalStateException("no pager");
                                });
        try (HoldfastClient alarmed = Holdfast.connect(url(), options)) {
            stranger.lock();
            timeOut(alarmed.lock(name), 1);
            until(() -> told.size() == 1);
            client.lock(name + 2, LockOptions.defaults().owner("stranger")).lock();
            timeOut(alarmed.lock(name + 2), 1);
            until(() -> told.size() == 2);
            stranger.unlock();
            client.lock(name + 2, LockOptions.defaults().owner("stranger")).unlock();
        }
    }

    @Test
    void wrongRulesAreRefused() {
        for (Duration window : List.of(Duration.ZERO, Duration.ofMillis(-1))) {
            assertThrows(
                    IllegalArgumentException.class, () -> ClientOptions.defaults().alarm(1, window));
            assertThrows(
                    IllegalArgumentException.class, () -> LockOptions.defaults().alarm(1, window));
        }
        assertThrows(IllegalArgumentException.class, () -> ClientOptions.defaults().alarm(0, HOUR));
        assertThrows(IllegalArgumentException.class, () -> LockOptions.defaults().alarm(0, HOUR));
        assertThrows(IllegalArgumentException.class, () -> ClientOptions.defaults().namesMax(0));
        assertThrows(
                IllegalArgumentException.class,
                () -> Holdfast.connect(url(), ClientOptions.defaults().namesMax(10001)));
    }
}
