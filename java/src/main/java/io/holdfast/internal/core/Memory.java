package io.holdfast.internal.core;

import java.util.concurrent.locks.LockSupport;

/** For what cannot be given up while the heap is full. */
public final class Memory {
    private Memory() {}

    /** Waits for a moment: what failed with an OutOfMemoryError is then to be tried again. */
    public static void await() {
        try {
            LockSupport.parkNanos(10_000_000);
        } catch (OutOfMemoryError e) { // a virtual thread needs a timer
            Thread.onSpinWait();
        }
    }
}
