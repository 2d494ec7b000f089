package io.holdfast.internal.redis;

import io.holdfast.ClosedException;
import io.holdfast.LockNotHeldException;
import io.holdfast.internal.core.Brake;
import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.ClientSettings.AlarmAction;
import io.holdfast.internal.core.ClientSettings.TroubleAction;
import io.holdfast.internal.core.ClientSettings;
import io.holdfast.internal.core.Core;
import io.holdfast.internal.core.Handle;
import io.holdfast.internal.core.Log;
import io.holdfast.internal.core.Threads;
import io.holdfast.internal.core.hf_client_options;
import java.lang.System.Logger.Level;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/** The parts of a client that its locks and holds use: the core's client, its completions, its owners. */
final class Session {
    private static final Pattern REPLICAS = Pattern.compile("[?&]replicas=0*[1-9]");
    /** Serial numbers for threads: a thread's id may be reused or overridden. */
    private static final AtomicLong THREADS = new AtomicLong();

    final Actions actions;
    final Held held = new Held();
    /** Whether locks without a number of their own wait for replicas, too. */
    final boolean replicated;
    private final Completions completions;
    private final Handle handle;
    private final ExitHook exit = new ExitHook();
    private final ThreadLocal<byte[]> threadOwner = ThreadLocal.withInitial(this::watchedOwner);
    /** A second owner of the same thread: the holds of the two owners do not nest in each other. */
    private final ThreadLocal<byte[]> holdOwner = ThreadLocal.withInitial(this::newOwner);
    private final ThreadWatch threads;
    /** The handles of its locks, closed with the client: else the cleaner would keep them, and this class. */
    private final Set<Handle> owned = ConcurrentHashMap.newKeySet();
    /** The brakes not in use. */
    private final Queue<Brake> brakes = new ConcurrentLinkedQueue<>();
    /** Whether a thread has ever left a hold with the client, for unlock(). */
    volatile boolean keeps;

    Session(String url, ClientSettings options) {
        long pointer = Threads.blocking(() -> open(url, options));
        this.replicated = REPLICAS.matcher(url).find();
        Actions actions = new Actions(options.executor);
        AlarmAction onAlarm = options.onAlarm;
        TroubleAction onTrouble = options.onTrouble;
        Completions completions =
                new Completions(
                        actions,
                        (name, timeouts, text) ->
                                tell(
                                        actions,
                                        text,
                                        "onAlarm",
                                        onAlarm == null
                                                ? null
                                                : () -> onAlarm.run(name, timeouts, text)),
                        (kind, holds, left, text) ->
                                tell(
                                        actions,
                                        text,
                                        "onTrouble",
                                        onTrouble == null
                                                ? null
                                                : () -> onTrouble.run(kind, holds, left, text)));
        ExitHook exit = this.exit;
        Set<Handle> owned = this.owned;
        Handle handle =
                new Handle(
                        pointer,
                        client -> {
                            Supplier<Void> ending = () -> end(client, completions, actions, owned, exit);
                            if (completions.isReader()) { // a close here would wait for its own thread
                                Threads.start("holdfast-close", ending::get);
                            } else {
                                Threads.blocking(ending);
                            }
                        });
        if (options.closeAtExit) {
            exit.set(handle);
        }
        String warning = handle.call(Core::hf_client_warning);
        if (!warning.isEmpty()) {
            Log.log(Level.WARNING, warning);
        }
        ThreadWatch threads = new ThreadWatch(handle);
        this.actions = actions;
        this.completions = completions;
        this.handle = handle;
        this.threads = threads;
        handle.whenDropped(
                this,
                () -> {
                    completions.abandon(); // its holds may still be in use
                    handle.close();
                    threads.close();
                    Log.log(Level.WARNING, "a client was dropped without close()");
                });
        if (options.alarmTimeouts > 0) {
            listen();
        }
    }

    /** Logs what happened, and has the user's action run elsewhere. */
    private static void tell(Actions actions, String text, String option, Runnable action) {
        Log.log(Level.WARNING, text);
        if (action != null) {
            actions.execute(
                    () -> {
                        try {
                            action.run();
                        } catch (RuntimeException | Error e) {
                            Log.log(Level.WARNING, option + "() failed", e);
                        }
                    });
        }
    }

    void listen() {
        call(
                client -> {
                    completions.listen(client);
                    return client;
                });
    }

    /** Ends the core's client, and all that belongs to it. */
    private static Void end(
            long client,
            Completions completions,
            Actions actions,
            Set<Handle> owned,
            ExitHook exit) {
        actions.end();
        completions.close(client);
        actions.close();
        owned.forEach(Handle::close);
        exit.remove();
        return null;
    }

    private static long open(String url, ClientSettings options) {
        if (url.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("the URL must not contain a NUL character");
        }
        try (hf_client_options core = options.toCore()) {
            return Core.hf_client_open(Bytes.of(url), core);
        }
    }

    void close() {
        handle.close();
        exit.await(); // a JVM that ends now would leave leases behind
        threads.close();
        freeBrakes();
    }

    /** Closes the handle with its holder, or with the client. */
    void own(Object holder, Handle opened) {
        Set<Handle> owned = this.owned;
        owned.add(opened);
        opened.whenDropped(
                holder,
                () -> {
                    owned.remove(opened);
                    opened.close();
                });
        if (handle.isClosed()) {
            opened.close();
        }
    }

    /** Returns the calling thread as an owner, the same in every call. */
    byte[] threadOwner() {
        return threadOwner.get();
    }

    /** Returns the calling thread as the owner of a Hold. */
    byte[] holdOwner() {
        return holdOwner.get();
    }

    private byte[] watchedOwner() {
        byte[] owner = newOwner();
        threads.watch(Thread.currentThread(), owner);
        return owner;
    }

    private byte[] newOwner() {
        long thread = THREADS.incrementAndGet();
        byte[] owner = handle.call(client -> Core.hf_client_owner(client, 't', thread));
        if (owner == null) {
            throw closed();
        }
        return owner;
    }

    /** Starts an operation by calling begin with its number; does not wait for it. */
    Completions.Operation start(LongConsumer begin) {
        return start(1, begin);
    }

    /** Starts several operations, which end together, by calling begin with the number of the first. */
    Completions.Operation start(int count, LongConsumer begin) {
        return call(client -> completions.start(client, count, begin));
    }

    /** Cancels an operation, which then ends soon, with or without the lock. */
    void cancel(Completions.Operation operation) {
        handle.call(client -> Core.hf_op_cancel(client, operation.number));
    }

    /** Starts to release a hold that its caller gave up. If this fails, the hold ends with its lease. */
    CompletableFuture<Completions.Outcome> abandon(long hold) {
        try {
            return start(number -> Core.hf_hold_release_start(hold, number));
        } catch (ClosedException | LockNotHeldException e) {
            return CompletableFuture.completedFuture(null); // it is released already
        } catch (OutOfMemoryError e) {
            releaseUnawaited(hold);
            throw e;
        } finally {
            Core.hf_hold_close(hold);
        }
    }

    /** Starts to release a hold, unless it was released; no caller waits for the answer. Returns 0. */
    int releaseUnawaited(long hold) {
        return Core.hf_hold_state(hold) == Core.HF_STATE_RELEASED
                ? 0
                : Core.hf_hold_release_start(hold, completions.unawaited());
    }

    void watch(long number, Completions.Watcher hold) {
        call(
                client -> {
                    completions.watch(client, number, hold);
                    return number;
                });
    }

    /** Makes a call that an interrupt of the calling thread ends. */
    <T> T interruptibly(LongFunction<T> call) {
        Brake free = brakes.poll();
        Brake brake = free != null ? free : new Brake();
        try {
            return brake.during(call);
        } finally {
            if (brake.isOpen()) {
                putBack(brake);
            }
            if (handle.isClosed()) {
                freeBrakes();
            }
        }
    }

    private void putBack(Brake brake) {
        try {
            brakes.add(brake);
        } catch (OutOfMemoryError e) { // the result of the call is worth more
            brake.free();
        }
    }

    private void freeBrakes() {
        for (Brake brake = brakes.poll(); brake != null; brake = brakes.poll()) {
            brake.free();
        }
    }

    void forget(long hold) {
        completions.forget(hold);
    }

    <T> T call(LongFunction<T> function) {
        return handle.call(function, Session::closed);
    }

    static ClosedException closed() {
        return new ClosedException("the client is closed");
    }
}
