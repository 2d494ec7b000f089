package io.holdfast.internal.memory;

import io.holdfast.CallOutcome;
import io.holdfast.FingerprintMismatchException;
import io.holdfast.Hold;
import io.holdfast.OnceOptions;
import io.holdfast.Outcome;
import io.holdfast.OutcomeSettledException;
import io.holdfast.OutcomeUnknownException;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/** The server's record of a call. RUNNING: the call has begun, and may still be held or not. */
record MemoryRecord(
        Outcome.State kind,
        boolean atMostOnce,
        byte[] print,
        long fence,
        byte[] owner,
        Instant since,
        Duration ttl,
        Long from, // when the ttl began; null: the outcome is unknown, and no caller has learned so yet
        byte[] note,
        byte[] bytes) {
    static final Duration RETRY_TTL = Duration.ofHours(24);

    /** A caller's report of the end of its call. */
    record End(Outcome.State state, byte[] bytes, Duration ttl, OnceOptions<?> options) {
        boolean keeps() {
            return state == Outcome.State.DONE || state == Outcome.State.FAILED;
        }
    }

    static MemoryRecord begun(long fence, byte[] owner, OnceOptions<?> options) {
        return new MemoryRecord(
                Outcome.State.RUNNING,
                true,
                options.fingerprint().orElse(null),
                fence,
                owner,
                Instant.now(),
                options.unknownTtl(),
                null,
                options.note().getBytes(java.nio.charset.StandardCharsets.UTF_8),
                null);
    }

    /** Makes the result or the error of a call whose beginning has no record. */
    static MemoryRecord ended(long fence, byte[] owner, End end) {
        return begun(fence, owner, end.options)
                .with(end.state, end.ttl, end.bytes)
                .in(end.options.atMostOnce());
    }

    private MemoryRecord in(boolean mode) {
        return new MemoryRecord(
                kind, mode, print, fence, owner, since, ttl, from, note, bytes);
    }

    /** Returns the record with another state, from now on. */
    MemoryRecord with(Outcome.State state, Duration stays, byte[] kept) {
        return new MemoryRecord(
                state,
                atMostOnce,
                print,
                fence,
                owner,
                Instant.now(),
                stays,
                System.nanoTime(),
                note,
                kept);
    }

    MemoryRecord noted(byte[] why) {
        return new MemoryRecord(
                kind, atMostOnce, print, fence, owner, since, ttl, from, why, bytes);
    }

    /** Returns the record once a caller has learned of it. */
    MemoryRecord learned() {
        return from != null
                ? this
                : new MemoryRecord(
                        kind,
                        atMostOnce,
                        print,
                        fence,
                        owner,
                        since,
                        ttl,
                        System.nanoTime(),
                        note,
                        bytes);
    }

    MemoryRecord settledBy(byte[] settler) {
        return new MemoryRecord(
                kind, atMostOnce, print, fence, settler, since, ttl, from, note, bytes);
    }

    /** Returns how much longer the record is kept. */
    Duration left() {
        if (from == null || ttl.equals(Hold.FOREVER)) {
            return ttl;
        }
        long nanos = TimeUnit.NANOSECONDS.convert(ttl) - (System.nanoTime() - from);
        return nanos > 0 ? Duration.ofNanos(nanos) : Duration.ZERO;
    }

    boolean isKept() {
        return kind == Outcome.State.DONE || kind == Outcome.State.FAILED;
    }

    boolean matches(OnceOptions<?> options) {
        byte[] other = options.fingerprint().orElse(null);
        return atMostOnce == options.atMostOnce()
                && (print == null || other == null || Arrays.equals(print, other));
    }

    /** Returns the outcome under which a caller that gets this record is counted. */
    CallOutcome counted(OnceOptions<?> options) {
        return !matches(options)
                ? CallOutcome.MISMATCH
                : isKept() ? CallOutcome.valueOf(kind.name()) : CallOutcome.UNKNOWN;
    }

    Outcome seen(boolean held, Outcome.Settler settler) {
        Outcome.State state =
                kind == Outcome.State.RUNNING && !held ? Outcome.State.UNKNOWN : kind;
        return new Outcome(
                state, atMostOnce, fence, owner, since, left(), note, bytes, settler);
    }

    /** Returns the result for a caller that does not make the call, or throws. */
    byte[] told(Object lock, OnceOptions<?> options, Outcome.Settler settler) {
        if (!matches(options)) {
            throw new FingerprintMismatchException(
                    "the call of "
                            + lock
                            + (atMostOnce == options.atMostOnce()
                                    ? " was made with other arguments"
                                    : " is made in the other mode: all callers have to agree on"
                                            + " atMostOnce"));
        }
        Outcome outcome = seen(false, settler);
        if (outcome.state() == Outcome.State.UNKNOWN) {
            throw new OutcomeUnknownException(
                    "the outcome of the call of " + lock + " is unknown: fence " + fence, outcome);
        }
        outcome.error()
                .ifPresent(
                        error -> {
                            throw error;
                        });
        return outcome.result().orElseThrow();
    }

    static OutcomeSettledException settled(Object lock) {
        return new OutcomeSettledException(
                "the call of " + lock + " has been settled already, or is done");
    }
}
