package io.holdfast.internal.core;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.Arrays;

/** The current span of OpenTelemetry, if the program uses it: this library does not depend on it. */
final class Trace {
    /** Returns the trace id of the current span, which may be invalid; null: there is no OpenTelemetry. */
    private static final MethodHandle ID = find();

    private static final String NONE = "00000000000000000000000000000000";

    private Trace() {}

    private static MethodHandle find() {
        try {
            ClassLoader loader = Trace.class.getClassLoader();
            Class<?> span = Class.forName("io.opentelemetry.api.trace.Span", true, loader);
            Class<?> context = Class.forName("io.opentelemetry.api.trace.SpanContext", true, loader);
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            MethodHandle current =
                    lookup.findStatic(span, "current", MethodType.methodType(span));
            MethodHandle of =
                    lookup.findVirtual(span, "getSpanContext", MethodType.methodType(context));
            MethodHandle id =
                    lookup.findVirtual(context, "getTraceId", MethodType.methodType(String.class));
            return MethodHandles.filterReturnValue(
                    MethodHandles.filterReturnValue(current, of), id);
        } catch (ReflectiveOperationException | LinkageError e) {
            return null;
        }
    }

    /** Returns the note with the trace id; null: there is no span. */
    static byte[] added(byte[] note) {
        String id = ID == null ? NONE : current();
        if (id.equals(NONE)) {
            return null;
        }
        byte[] traced = Bytes.of(Bytes.text(note) + " trace=" + id);
        return Arrays.copyOf(traced, Math.min(traced.length, Core.HF_NOTE_MAX));
    }

    private static String current() {
        try {
            return (String) ID.invokeExact();
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }
}
