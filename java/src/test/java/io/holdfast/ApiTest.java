package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.holdfast.testing.InMemoryHoldfast;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.lang.module.ModuleDescriptor;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What a user sees. */
final class ApiTest {

    @Test
    void nothingThatIsGeneratedIsPublic() throws Exception {
        Set<String> seen = new TreeSet<>();
        Path folder = Path.of(System.getProperty("holdfast.classes"), "io", "holdfast");
        try (var files = Files.newDirectoryStream(folder, "*.class")) {
            for (Path file : files) {
                String name = file.getFileName().toString().replace(".class", "");
                boolean isClass = !name.equals("package-info");
                if (isClass
                        && Modifier.isPublic(Class.forName("io.holdfast." + name).getModifiers())) {
                    seen.add(name);
                }
            }
        }
        assertEquals(
                new TreeSet<>(
                        List.of(
                                "Alarm",
                                "AuthenticationException",
                                "CallOutcome",
                        "ClientOptions",
                                "ClientStats",
                                "ClosedException",
                                "Codec",
                                "ConnectionFailedException",
                                "FailureCause",
                                "Finding",
                                "Finding$Level",
                                "FingerprintMismatchException",
                                "Gate",
                                "GateFullException",
                                "Histogram",
                                "Hold",
                                "Holdfast",
                                "HoldfastClient",
                                "HoldfastException",
                                "HoldfastLock",
                                "HoldfastLocks",
                                "Holds",
                                "KeptErrorException",
                                "Leader",
                                "LimitDiffersException",
                                "LockDeadlockException",
                                "LockHolder",
                                "LockInfo",
                                "LockLimit",
                                "LossCause",
                                "LockLostException",
                                "LockNotHeldException",
                                "LockNotReplicatedException",
                                "LockOptions",
                                "LockStats",
                                "LockTimeoutException",
                                "LockUnknownException",
                                "LockWaiter",
                                "Locks",
                                "Locks$Progress",
                                "OnceOptions",
                                "Origin",
                                "Origin$Kind",
                                "Outcome",
                                "Outcome$Settler",
                                "Outcome$State",
                                "OutcomeSettledException",
                                "OutcomeUnknownException",
                                "ProtocolException",
                                "RefusalCause",
                                "ResultNotKeptException",
                                "ResultNotKeptException$Reason",
                                "ServerException",
                                "TroubleNotice",
                                "TroubleNotice$Kind",
                                "Turn",
                                "UnsupportedException")),
                seen);
    }

    @Test
    void theModuleExportsNoWorkers() {
        assertEquals(
                Set.of("io.holdfast", "io.holdfast.micrometer", "io.holdfast.testing"),
                Holdfast.class.getModule().getDescriptor().exports().stream()
                        .map(ModuleDescriptor.Exports::source)
                        .collect(Collectors.toSet()));
    }

    @Test
    void theExceptionsAreOneSmallTree() {
        assertInstanceOf(RuntimeException.class, new HoldfastException(""));
        for (Object error :
                List.of(
                        new LockTimeoutException(""),
                        new LockUnknownException(""),
                        new ConnectionFailedException(""),
                        new AuthenticationException(""),
                        new ServerException(""),
                        new ProtocolException(""),
                        new UnsupportedException(""))) {
            assertInstanceOf(HoldfastException.class, error);
        }
        assertInstanceOf(LockNotHeldException.class, new LockLostException(""));
        assertInstanceOf(IllegalMonitorStateException.class, new LockNotHeldException(""));
        assertInstanceOf(IllegalStateException.class, new ClosedException(""));
        assertInstanceOf(IllegalStateException.class, new LockDeadlockException(""));
    }

    @Test
    void theVersionIsThatOfTheHeader() {
        assertEquals(System.getProperty("project.version"), Holdfast.version());
    }

    @Test
    void theExceptionsTravelToOtherProcesses() throws Exception {
        for (RuntimeException each :
                List.of(
                        new LockTimeoutException(
                                "busy", "name", Duration.ofSeconds(1), List::of),
                        new GateFullException(
                                client().lock("name"), "full", Duration.ZERO, Duration.ZERO),
                        new LockLostException("lost", LossCause.EXPIRED),
                        new LockNotReplicatedException("replicas", 1),
                        new KeptErrorException("Declined", "broke", null),
                        new OutcomeUnknownException("unknown", null),
                        new ResultNotKeptException(
                                "name",
                                Optional::empty,
                                1,
                                new Object(),
                                ResultNotKeptException.Reason.LOST,
                                new IllegalStateException("why")))) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            new ObjectOutputStream(bytes).writeObject(each);
            Object read =
                    new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))
                            .readObject();
            assertEquals(each.toString(), read.toString());
            if (read instanceof LockTimeoutException timeout) {
                assertEquals(List.of(), timeout.holders());
                assertEquals("name", timeout.name());
            } else if (read instanceof OutcomeUnknownException unknown) {
                assertThrows(IllegalStateException.class, unknown::retry);
            } else if (read instanceof ResultNotKeptException paid) {
                assertNull(paid.result());
                assertThrows(
                        IllegalStateException.class,
                        () -> paid.resolve(new byte[0], Duration.ofMinutes(1)));
            }
        }
    }

    private static HoldfastClient client() {
        return new InMemoryHoldfast().connect();
    }
}
