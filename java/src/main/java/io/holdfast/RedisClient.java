package io.holdfast;

import java.lang.System.Logger.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;
import java.util.function.LongToIntFunction;

/** The client of a Redis. */
final class RedisClient implements HoldfastClient {
    /** Serial numbers for threads: a thread's id may be reused, or be overridden. */
    private static final AtomicLong THREADS = new AtomicLong();

    /** For so long after an answer, the server is taken to be well. */
    private static final long WELL_NANOS = TimeUnit.MILLISECONDS.toNanos(1);

    final Actions actions;
    final Held held = new Held();
    private final Completions completions;
    private final Handle handle;
    private final ExitHook exit = new ExitHook();
    private final ThreadLocal<byte[]> threadOwner = ThreadLocal.withInitial(this::newThreadOwner);
    private final ThreadWatch threads;
    /** Not in use now. */
    private final Queue<Brake> brakes = new ConcurrentLinkedQueue<>();
    /** When a call on a thread of the caller's ended last. */
    private volatile long heardAt = System.nanoTime() - WELL_NANOS;

    RedisClient(String url, ClientOptions options) {
        long pointer = Threads.blocking(() -> open(url, options));
        Actions actions = new Actions(options.executor);
        Consumer<? super Alarm> onAlarm = options.onAlarm;
        Completions completions = new Completions(alarm -> tell(alarm, onAlarm, actions));
        ExitHook exit = this.exit;
        Handle handle =
                new Handle(
                        pointer,
                        client -> Threads.blocking(() -> end(client, completions, actions, exit)));
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
        if (options.alarms()) {
            listen();
        }
    }

    /** Logs an alarm, and lets the user's action run elsewhere. */
    private static void tell(Alarm alarm, Consumer<? super Alarm> action, Actions actions) {
        Log.log(Level.WARNING, alarm.message());
        if (action != null) {
            actions.execute(
                    () -> {
                        try {
                            action.accept(alarm);
                        } catch (RuntimeException e) {
                            Log.log(Level.WARNING, "onAlarm() failed", e);
                        }
                    });
        }
    }

    private void listen() {
        call(
                client -> {
                    completions.listen(client);
                    return client;
                });
    }

    /** Gives the core's client back. */
    private static Void end(
            long client, Completions completions, Actions actions, ExitHook exit) {
        completions.close(client);
        actions.close();
        exit.remove();
        return null;
    }

    private static long open(String url, ClientOptions options) {
        if (url.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("the URL must not contain a NUL character");
        }
        try (hf_client_options core = options.toCore()) {
            return Core.hf_client_open(Bytes.of(url), core);
        }
    }

    @Override
    public HoldfastLock lock(byte[] name, LockOptions options) {
        Objects.requireNonNull(name, "name");
        return open(name.clone(), options, false);
    }

    RedisLock open(byte[] name, LockOptions options, boolean shared) {
        try (hf_lock_options core = options.toCore(shared)) {
            long lock = call(client -> Core.hf_lock_open(client, name, options.owner, core));
            if (options.alarms()) {
                listen();
            }
            return new RedisLock(this, name, options, shared, lock);
        }
    }

    @Override
    public Locks locks(String pattern, int rate) {
        byte[] bytes = Bytes.of(pattern);
        if (rate == 0) {
            throw new IllegalArgumentException("the rate must be 1 or more, or -1: 0");
        }
        try (hf_locks_options options = new hf_locks_options()) {
            options.setRate(rate);
            return new RedisLocks(call(client -> Core.hf_locks_open(client, bytes, options)));
        }
    }

    @Override
    public ClientStats stats() {
        return call(Stats::of);
    }

    @Override
    public void ping() {
        Threads.blocking(() -> call(Core::hf_client_ping));
    }

    @Override
    public List<Finding> survey(String name) {
        byte[] bytes = name == null ? null : Bytes.of(name);
        return Threads.blocking(() -> survey(bytes));
    }

    private List<Finding> survey(byte[] name) {
        List<Finding> findings = new ArrayList<>();
        for (int i = 0; ; i++) {
            int server = i;
            byte[][] found = call(client -> Core.hf_client_survey(client, server, name));
            if (found.length == 0) {
                return List.copyOf(findings);
            }
            for (int at = 0; at < found.length; at += 4) {
                findings.add(
                        new Finding(
                                level(found[at][0]),
                                Bytes.text(found[at + 1]),
                                Bytes.text(found[at + 2]),
                                Bytes.text(found[at + 3])));
            }
        }
    }

    private static Finding.Level level(int level) {
        return switch (level) {
            case Core.HF_FINDING_GOOD -> Finding.Level.GOOD;
            case Core.HF_FINDING_NOTE -> Finding.Level.NOTE;
            default -> Finding.Level.WARNING;
        };
    }

    @Override
    public void close() {
        handle.close();
        exit.await(); // a JVM that ends now would leave leases behind
        threads.close();
    }

    /**
     * Whether the calling thread may ask the server on its own, in native code. One who listens to
     * interrupts does it with a brake, so that it asks once and no more: only if the server is
     * likely to answer, because another answer just came.
     */
    boolean mayBlock(boolean interruptible) {
        return !Threads.isVirtual()
                && (!interruptible || System.nanoTime() - heardAt < WELL_NANOS);
    }

    /** The server has just answered. */
    void heard() {
        heardAt = System.nanoTime();
    }

    /** The calling thread as an owner, the same at every call. */
    byte[] threadOwner() {
        return threadOwner.get();
    }

    private byte[] newThreadOwner() {
        long thread = THREADS.incrementAndGet();
        byte[] owner = handle.call(client -> Core.hf_client_owner(client, 't', thread));
        if (owner == null) {
            throw closed();
        }
        threads.watch(Thread.currentThread(), owner);
        return owner;
    }

    /** Starts an operation without waiting for it, by calling begin with its number. */
    Completions.Operation start(LongConsumer begin) {
        return call(client -> completions.start(client, begin));
    }

    /** Cancels an operation, which then ends soon, with or without the lock. */
    void cancel(Completions.Operation operation) {
        handle.call(client -> Core.hf_op_cancel(client, operation.number));
    }

    /** Starts to release a hold that its caller gave up. If that fails, it ends with its lease. */
    CompletableFuture<Completions.Outcome> abandon(long hold) {
        try {
            return start(number -> Core.hf_hold_release_start(hold, number));
        } catch (ClosedException | LockNotHeldException e) {
            return CompletableFuture.completedFuture(null); // it is released already
        } finally {
            Core.hf_hold_close(hold);
        }
    }

    void watch(long number, RedisHold hold) {
        call(
                client -> {
                    completions.watch(client, number, hold);
                    return number;
                });
    }

    /** Tries something that an interrupt of the calling thread ends. */
    int interruptibly(LongToIntFunction tried) {
        Brake free = brakes.poll();
        Brake brake = free != null ? free : new Brake();
        int status = brake.during(tried);
        if (brake.isOpen()) {
            brakes.add(brake);
        }
        return status;
    }

    void forget(long hold) {
        completions.forget(hold);
    }

    private <T> T call(LongFunction<T> function) {
        T answer = handle.call(function);
        if (answer == null) {
            throw closed();
        }
        return answer;
    }

    private static ClosedException closed() {
        return new ClosedException("the client is closed");
    }
}
