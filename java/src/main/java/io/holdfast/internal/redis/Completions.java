package io.holdfast.internal.redis;

import io.holdfast.internal.core.Awaited;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.ClientSettings.AlarmAction;
import io.holdfast.internal.core.ClientSettings.TroubleAction;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Log;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_completion;
import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.LongConsumer;

/**
 * Reads the core's completions: the ends of started operations, and the losses of holds. One daemon
 * thread, started on first need, reads them. It never runs user code, which might wait for an event
 * that only this thread can report. It has no reference to the client, so that the client can be
 * collected.
 */
final class Completions {
    /** The end of an operation: its status, the holds that it acquired, and its error, with the lock at fault. */
    record Outcome(int status, long[] holds, int lock, long replicas, int cause, String text) {
        /** Returns the only hold, or the first. */
        long hold() {
            return holds[0];
        }

        /** Returns the Error or RuntimeException of a failure. */
        Throwable failure() {
            return Status.of(status, text, cause, replicas);
        }

        /** Throws the failure, if the operation failed. */
        void check() {
            if (status != Core.HF_OK) {
                throw Threads.raised(failure());
            }
        }
    }

    /** A started operation, or several that end together. It never ends with an exception. */
    static final class Operation extends Awaited<Outcome> {
        final long number;
        private final long[] holds;
        private int ended;

        private Operation(long number, int count) {
            this.number = number;
            this.holds = new long[count];
        }

        /** Records the end of one operation; the last end completes this. */
        private void end(hf_completion completion, String text) {
            holds[(int) (completion.getOp() - number)] = completion.getHold();
            if (ended + 1 == holds.length) {
                complete(
                        new Outcome(
                                completion.getStatus(),
                                holds,
                                completion.getError().getLock(),
                                completion.getError().getReplicas(),
                                completion.getError().getCause(),
                                text));
            }
            ended++; // last: if memory runs out above, all of this is repeated
        }
    }

    /** Receives the loss of a hold. */
    interface Watcher {
        void tellLoss();
    }

    /** The first number of operations that no caller waits for. */
    private static final long UNAWAITED = 1L << 62;

    private final Actions actions;
    private final AlarmAction alarmed;
    private final TroubleAction troubled;
    private final AtomicLong numbers = new AtomicLong(1);
    private final AtomicLong unawaited = new AtomicLong(UNAWAITED);
    private final Map<Long, Operation> operations = new ConcurrentHashMap<>();
    private final Map<Long, WeakReference<Watcher>> holds = new ConcurrentHashMap<>();
    private final ReentrantLock starting = new ReentrantLock();
    private long bell;
    private volatile Thread reader;
    private volatile boolean abandoned;

    /** Takes the actions for alarms and for trouble, which must not run user code either. */
    Completions(Actions actions, AlarmAction alarmed, TroubleAction troubled) {
        this.actions = actions;
        this.alarmed = alarmed;
        this.troubled = troubled;
    }

    /** Reports alarms and trouble from now on. */
    void listen(long client) {
        read(client);
    }

    /** Starts an operation by calling begin with its number; the client must stay open. */
    Operation start(long client, LongConsumer begin) {
        return start(client, 1, begin);
    }

    /** Starts several operations by calling begin with the number of the first. */
    Operation start(long client, int count, LongConsumer begin) {
        read(client);
        Operation operation = new Operation(numbers.getAndAdd(count), count);
        for (int at = 0; at < count; at++) {
            operations.put(operation.number + at, operation);
        }
        try {
            begin.accept(operation.number);
        } catch (Throwable e) {
            operations.values().removeIf(each -> each == operation);
            throw e;
        }
        return operation;
    }

    /** Returns a number for an operation that no caller waits for; needs no memory. */
    long unawaited() {
        return unawaited.getAndIncrement();
    }

    /** Reports its loss to the hold from now on, unless the hold is dropped before. */
    void watch(long client, long number, Watcher hold) {
        read(client);
        holds.put(number, new WeakReference<>(hold));
    }

    void forget(long hold) {
        holds.remove(hold);
    }

    private void read(long client) {
        if (reader != null) {
            return;
        }
        starting.lock();
        try {
            if (reader == null) {
                int descriptor = Core.hf_client_fd(client);
                bell = Core.bell_make();
                if (bell < 0) {
                    throw new OutOfMemoryError("no file descriptor is left for the waiting thread");
                }
                try {
                    reader =
                            Threads.start(
                                    "holdfast-completions",
                                    () -> readUntilRung(client, descriptor));
                } finally {
                    if (reader == null) {
                        Core.bell_close(bell);
                    }
                }
            }
        } finally {
            starting.unlock();
        }
    }

    private void readUntilRung(long client, int descriptor) {
        try (hf_completion completion = new hf_completion()) {
            boolean open;
            do {
                open = Core.bell_sleep(bell, descriptor);
                for (;;) { // after the bell too, or an alarm just before a close would be lost
                    Core.hf_client_next(client, completion);
                    if (completion.getKind() == Core.HF_KIND_NONE) {
                        break;
                    }
                    tellWhatever(completion);
                }
            } while (open);
        }
    }

    /**
     * Reports a completion, and survives any failure: a user's executor may run an action on this thread.
     * The core returns no completion twice, so while the heap is full, this thread waits and tries again.
     */
    private void tellWhatever(hf_completion completion) {
        for (;;) {
            try {
                tell(completion);
                return;
            } catch (OutOfMemoryError e) {
                if (!actions.awaitMemory()) {
                    return;
                }
            } catch (RuntimeException | Error e) {
                Log.log(Level.WARNING, "an action failed on the thread that tells of it", e);
                return;
            }
        }
    }

    /** Reports a completion; can be repeated after an OutOfMemoryError. */
    private void tell(hf_completion completion) {
        if (completion.getKind() == Core.HF_KIND_LOSS) {
            Long number = completion.getHold_number();
            WeakReference<Watcher> watched = holds.get(number);
            Watcher hold = watched == null ? null : watched.get();
            if (hold != null) {
                hold.tellLoss();
            }
            holds.remove(number);
            return;
        }
        String text = Bytes.text(completion.getError().getMessage());
        if (completion.getKind() == Core.HF_KIND_ALARM) {
            String name = Bytes.shown(completion.getName());
            alarmed.run(name, completion.getTimeouts(), text);
            return;
        }
        if (completion.getKind() == Core.HF_KIND_TROUBLE
                || completion.getKind() == Core.HF_KIND_FAILOVER) {
            String kind = kind(completion);
            troubled.run(kind, completion.getHolds(), completion.getLeft_ms(), text);
            return;
        }
        Long number = completion.getOp();
        Operation operation = operations.get(number);
        if (operation == null && number >= UNAWAITED) {
            return;
        }
        if (operation == null) {
            Log.log(
                    Level.ERROR,
                    "operation " + number + " ended, which is not under way");
            return;
        }
        operation.end(completion, text);
        operations.remove(number);
    }

    private static String kind(hf_completion trouble) {
        if (trouble.getKind() == Core.HF_KIND_FAILOVER) {
            return "FAILOVER";
        }
        return trouble.getStatus() == Core.HF_OK ? "OVER" : "AT_RISK";
    }

    /** Whether the calling thread is the reader. */
    boolean isReader() {
        return Thread.currentThread() == reader;
    }

    /** Makes close() leave the client's holds unreleased. */
    void abandon() {
        abandoned = true;
    }

    /** Ends the reader, then closes the client, and then ends the operations still under way. */
    void close(long client) {
        if (reader != null) {
            Core.bell_ring(bell);
            Threads.join(reader);
            Core.bell_close(bell);
        }
        if (abandoned) {
            Core.hf_client_abandon(client);
        } else {
            Core.hf_client_close(client);
        }
        Outcome closed = new Outcome(Core.HF_ECLOSED, new long[1], 0, 0, 0, "the client is closed");
        operations.values().forEach(o -> o.complete(closed));
    }
}
