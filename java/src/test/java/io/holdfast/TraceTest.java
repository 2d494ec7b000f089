package io.holdfast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.time.Duration;
import org.junit.jupiter.api.Test;

/** The trace id of OpenTelemetry's current span, in the note of a hold. */
final class TraceTest extends RedisTest {
    private static final String ID = "4bf92f3577b34da6a3ce929d0e0e4736";

    private static final SpanContext CONTEXT =
            SpanContext.create(
                    ID, "00f067aa0ba902b7", TraceFlags.getSampled(), TraceState.getDefault());

    private String note() {
        return lock.inspect().holders().get(0).note();
    }

    @Test
    void theTraceIdFollowsTheNote() throws Exception {
        HoldfastLock noted = client.lock(name, LockOptions.defaults().note("refund 17"));
        try (Scope scope = Span.wrap(CONTEXT).makeCurrent()) {
            try (Hold hold = noted.acquire()) {
                assertEquals("refund 17 trace=" + ID, note());
            }
            try (Hold hold = noted.acquireAsync(Duration.ofSeconds(20)).get()) {
                assertEquals("refund 17 trace=" + ID, note());
            }
            noted.lock();
            assertEquals("refund 17 trace=" + ID, note());
            noted.unlock();
            try (Hold hold = lock.acquire()) { // without a note nothing is added
                assertEquals("", note());
            }
        }
        try (Hold hold = noted.acquire()) {
            assertEquals("refund 17", note());
        }
    }
}
