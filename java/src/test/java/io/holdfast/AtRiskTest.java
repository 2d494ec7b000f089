package io.holdfast;

import static io.holdfast.Async.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;

/** Trouble is told before anything is lost. */
final class AtRiskTest {
    private static final Duration BRIEF = Duration.ofSeconds(2);
    private static final LockOptions LEASE = LockOptions.defaults().lease(Duration.ofSeconds(12));

    private final List<TroubleNotice> told = new CopyOnWriteArrayList<>();

    private void outage(RedisServer server) throws Exception {
        server.stall();
        until(() -> !told.isEmpty());
        server.resume();
        until(() -> told.size() > 1);
    }

    private void checkTold() {
        for (int i = 0; i < told.size(); i++) { // more than two only if the machine stood still
            assertEquals(
                    i % 2 == 0 ? TroubleNotice.Kind.AT_RISK : TroubleNotice.Kind.OVER,
                    told.get(i).kind());
        }
        TroubleNotice risk = told.get(0);
        assertEquals(TroubleNotice.Kind.AT_RISK, risk.kind());
        assertEquals(1, risk.holds());
        assertTrue(risk.endsIn().compareTo(Duration.ofSeconds(12)) < 0, risk.toString());
        assertTrue(risk.message().startsWith("cannot renew 1 hold, which ends in "), risk.message());
        TroubleNotice over = told.get(1);
        assertEquals(TroubleNotice.Kind.OVER, over.kind());
        assertEquals(0, over.holds());
        assertNull(over.endsIn());
        assertTrue(over.message().startsWith("holds are renewed again, after "), over.message());
    }

    private ClientOptions telling() {
        return ClientOptions.defaults()
                .connectTimeout(BRIEF)
                .commandTimeout(BRIEF)
                .onTrouble(told::add);
    }

    @Test
    void aHolderIsToldBeforeItsHoldIsLost() throws Exception {
        try (RedisServer server = RedisServer.start();
                HoldfastClient client = Holdfast.connect(server.tcpUrl, telling());
                Hold hold = client.lock("kept", LEASE).acquire()) {
            outage(server);
            assertTrue(hold.isValid());
        }
        checkTold();
    }

    @Test
    void aHolderThatAcquiredItWithoutWaitingIsToldToo() throws Exception {
        try (RedisServer server = RedisServer.start();
                HoldfastClient client = Holdfast.connect(server.tcpUrl, telling());
                Hold hold = client.lock("kept", LEASE).acquireAsync().toCompletableFuture().get()) {
            outage(server);
            assertTrue(hold.isValid());
        }
        checkTold();
    }

    /** A program that says nothing itself. */
    static final class Silent {
        public static void main(String[] arguments) throws Exception {
            try (RedisServer server = RedisServer.start();
                    HoldfastClient client = Holdfast.connect(server.tcpUrl);
                    Hold hold = client.lock("kept", LEASE).acquire()) {
                server.stall();
                while (hold.isValid()) {
                    Thread.sleep(2);
                }
                server.resume();
            } catch (LockLostException expected) {
                return;
            }
        }
    }

    @Test
    void itIsLoggedOnceWithoutAnAction() throws Exception {
        String said = Jvm.run(List.of(), Jvm.program(Silent.class)).output();
        assertEquals(2, said.split("WARNING: cannot renew 1 hold, which ends in ", -1).length, said);
    }

    @Test
    void anActionIsNeeded() {
        assertThrows(NullPointerException.class, () -> ClientOptions.defaults().onTrouble(null));
    }
}
