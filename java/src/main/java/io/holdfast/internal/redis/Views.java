package io.holdfast.internal.redis;

import io.holdfast.LockHolder;
import io.holdfast.LockInfo;
import io.holdfast.LockLimit;
import io.holdfast.LockWaiter;
import io.holdfast.Outcome;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.hf_lock_info;
import io.holdfast.internal.core.hf_once_info;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/** Makes the results of a look at a lock or at a call. */
final class Views {
    private static final int HOLDER_NUMBERS = 7;

    private static final int WAITER_NUMBERS = 5;

    private Views() {}

    /** Makes a look at a lock from the binding's answer. */
    static LockInfo of(hf_lock_info info, Object[] view) {
        return new LockInfo(
                (byte[]) view[0],
                info.getHeld() != 0,
                info.getForeign() != 0,
                info.getShared() != 0,
                info.getCount(),
                info.getWaiters(),
                Millis.toDuration(info.getRemaining_ms()),
                Duration.ofMillis(info.getResult_ms()),
                info.getMoving() != 0,
                limit(info.getPermits(), info.getPer_ms()),
                holders((byte[][]) view[1], (long[]) view[2]),
                waiters((byte[][]) view[3], (long[]) view[4]));
    }

    /** Makes a stored limit from its numbers. */
    static Optional<LockLimit> limit(long permits, long perMillis) {
        return permits == 0
                ? Optional.empty()
                : Optional.of(new LockLimit(permits, Duration.ofMillis(perMillis)));
    }

    /** Makes the record of a call; empty: there is none. */
    static Optional<Outcome> of(hf_once_info info, byte[] bytes, Outcome.Settler settler) {
        return info.getState() == Core.HF_ONCE_NONE
                ? Optional.empty()
                : Optional.of(
                        new Outcome(
                                state(info.getState()),
                                info.getAt_most_once() != 0,
                                info.getFence(),
                                info.getOwner(),
                                Instant.ofEpochMilli(info.getSince_ms()),
                                Millis.toDuration(info.getTtl_ms()),
                                info.getNote(),
                                bytes,
                                settler));
    }

    private static Outcome.State state(int number) {
        for (Outcome.State state : Outcome.State.values()) {
            if (number(state) == number) {
                return state;
            }
        }
        throw new AssertionError("a call in the state " + number);
    }

    /** Returns the core's number of a state. */
    static int number(Outcome.State state) {
        return switch (state) {
            case RUNNING -> Core.HF_ONCE_RUNNING;
            case UNKNOWN -> Core.HF_ONCE_UNKNOWN;
            case RETRY -> Core.HF_ONCE_RETRY;
            case DONE -> Core.HF_ONCE_DONE;
            case FAILED -> Core.HF_ONCE_FAILED;
        };
    }

    private static List<LockHolder> holders(byte[][] owners, long[] numbers) {
        List<LockHolder> holders = new ArrayList<>();
        for (int i = 0; i < owners.length / 2; i++) {
            int at = HOLDER_NUMBERS * i;
            holders.add(
                    new LockHolder(
                            owners[2 * i],
                            Bytes.text(owners[2 * i + 1]),
                            numbers[at] == Core.HF_SHARED,
                            numbers[at + 1],
                            numbers[at + 2],
                            Duration.ofMillis(numbers[at + 3]),
                            Millis.toDuration(numbers[at + 4]),
                            numbers[at + 5] != 0,
                            numbers[at + 6]));
        }
        return List.copyOf(holders);
    }

    private static List<LockWaiter> waiters(byte[][] owners, long[] numbers) {
        List<LockWaiter> waiters = new ArrayList<>();
        for (int i = 0; i < owners.length / 2; i++) {
            int at = WAITER_NUMBERS * i;
            waiters.add(
                    new LockWaiter(
                            owners[2 * i],
                            Bytes.text(owners[2 * i + 1]),
                            numbers[at] == Core.HF_SHARED,
                            numbers[at + 1],
                            Duration.ofMillis(numbers[at + 2]),
                            Millis.toDuration(numbers[at + 3]),
                            numbers[at + 4]));
        }
        return List.copyOf(waiters);
    }
}
