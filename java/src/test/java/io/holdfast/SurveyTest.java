package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.holdfast.testing.InMemoryHoldfast;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** What a client tells of its servers. */
final class SurveyTest extends RedisTest {
    @Test
    void aPingIsAnswered() {
        client.ping();
    }

    @Test
    void aClosedClientPingsNobody() {
        HoldfastClient other = SERVER.connect();
        other.close();
        assertThrows(ClosedException.class, other::ping);
        assertThrows(ClosedException.class, () -> other.survey(null));
    }

    @Test
    void aPingOfNobodySaysSo() {
        ClientOptions options = ClientOptions.defaults().lazy(true);
        String nowhere = "redis://127.0.0.1:1?connect_timeout=0.2";
        try (HoldfastClient other = Holdfast.connect(nowhere, options)) {
            assertThrows(ConnectionFailedException.class, other::ping);
        }
    }

    @Test
    void aSurveyFindsWhatEndangersLocks() {
        Map<String, Finding> found =
                client.survey("stock").stream()
                        .collect(Collectors.toMap(Finding::subject, Function.identity()));
        assertEquals(Finding.Level.GOOD, found.get("version").level());
        assertEquals(Finding.Level.GOOD, found.get("eviction").level());
        assertEquals(Finding.Level.WARNING, found.get("persistence").level());
        assertTrue(found.get("persistence").text().contains("appendonly"));
        assertEquals(Finding.Level.GOOD, found.get("permissions").level());
        assertFalse(found.get("version").server().isEmpty());
        assertFalse(client.survey(null).stream().anyMatch(f -> f.subject().equals("permissions")));
        assertThrows(IllegalArgumentException.class, () -> client.survey("a:hf1:f"));
    }

    @Test
    void memoryHasNoSettings() {
        try (HoldfastClient memory = new InMemoryHoldfast().connect()) {
            memory.ping();
            assertEquals(List.of(), memory.survey("stock"));
        }
    }
}
