package io.holdfast.internal.redis;

import io.holdfast.LockHolder;
import io.holdfast.LockInfo;
import io.holdfast.LockWaiter;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Millis;
import io.holdfast.internal.core.hf_lock_info;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Makes the records of a look at a lock. */
final class Views {
    private static final int HOLDER_NUMBERS = 5;

    private static final int WAITER_NUMBERS = 4;

    private Views() {}

    /** A look at a lock, from what the binding answers. */
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
                holders((byte[][]) view[1], (long[]) view[2]),
                waiters((byte[][]) view[3], (long[]) view[4]));
    }

    private static List<LockHolder> holders(byte[][] owners, long[] numbers) {
        List<LockHolder> holders = new ArrayList<>();
        for (int i = 0; i < owners.length; i++) {
            int at = HOLDER_NUMBERS * i;
            holders.add(
                    new LockHolder(
                            owners[i],
                            numbers[at] == Core.HF_SHARED,
                            numbers[at + 1],
                            numbers[at + 2],
                            Duration.ofMillis(numbers[at + 3]),
                            Millis.toDuration(numbers[at + 4])));
        }
        return List.copyOf(holders);
    }

    private static List<LockWaiter> waiters(byte[][] owners, long[] numbers) {
        List<LockWaiter> waiters = new ArrayList<>();
        for (int i = 0; i < owners.length; i++) {
            int at = WAITER_NUMBERS * i;
            waiters.add(
                    new LockWaiter(
                            owners[i],
                            numbers[at] == Core.HF_SHARED,
                            numbers[at + 1],
                            Duration.ofMillis(numbers[at + 2]),
                            Millis.toDuration(numbers[at + 3])));
        }
        return List.copyOf(waiters);
    }
}
