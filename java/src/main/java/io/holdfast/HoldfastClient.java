package io.holdfast;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * A pool of connections to one Redis, and the holds acquired through it. {@link
 * Holdfast#connect(String)} makes it; a program needs only one.
 *
 * <p>Any thread may use and close it at any time.
 */
public final class HoldfastClient implements AutoCloseable {
    /** Serial numbers for threads: a thread's id may be reused, or be overridden. */
    private static final AtomicLong THREADS = new AtomicLong();

    private final Completions completions = new Completions();
    private final Handle handle;
    private final ThreadLocal<byte[]> threadOwner = ThreadLocal.withInitial(this::newThreadOwner);
    private final ThreadWatch threads;
    /** Tries that the core counts as refused, although their callers then waited. */
    private final AtomicLong onlyTries = new AtomicLong();

    HoldfastClient(String url, ClientOptions options) {
        Completions completions = this.completions;
        handle = new Handle(open(url, options), completions::close);
        String warning = handle.call(Core::hf_client_warning);
        if (!warning.isEmpty()) {
            Holdfast.LOG.log(Level.WARNING, warning);
        }
        Handle handle = this.handle;
        ThreadWatch threads = new ThreadWatch(handle);
        this.threads = threads;
        handle.whenDropped(
                this,
                () -> {
                    completions.abandon(); // its holds may still be in use
                    handle.close();
                    threads.close();
                    Holdfast.LOG.log(Level.WARNING, "a client was dropped without close()");
                });
    }

    private static long open(String url, ClientOptions options) {
        if (url.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("the URL must not contain a NUL character");
        }
        try (hf_client_options core = new hf_client_options()) {
            core.setIdle_connections(options.idleConnections);
            core.setConnect_timeout_ms(options.connectTimeoutMillis);
            core.setCommand_timeout_ms(options.commandTimeoutMillis);
            core.setKeepalive_ms(options.keepAliveMillis);
            core.setMax_connections(options.maxConnections);
            core.setClient_name(options.clientName);
            return Core.hf_client_open(Bytes.of(url), core);
        }
    }

    /**
     * The lock called {@code name}, with the default options. Sends nothing.
     *
     * @param name 1 to 4096 bytes in UTF-8; it must not end in {@code :hf}, digits, {@code :} and
     *     one letter, like the lock's own keys
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    public RedisLock lock(String name) {
        return lock(name, LockOptions.defaults());
    }

    /**
     * The lock called {@code name}. Sends nothing.
     *
     * @param name see {@link #lock(String)}
     * @param options the lease and other settings
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name or an option is wrong
     * @throws ClosedException if the client is closed
     */
    public RedisLock lock(String name, LockOptions options) {
        return lock(Bytes.of(name), options);
    }

    /**
     * The lock whose name is these bytes, with the default options. Sends nothing.
     *
     * @param name see {@link #lock(String)}
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    public RedisLock lock(byte[] name) {
        return lock(name, LockOptions.defaults());
    }

    /**
     * The lock whose name is these bytes. Sends nothing.
     *
     * @param name see {@link #lock(String)}
     * @param options the lease and other settings
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name or an option is wrong
     * @throws ClosedException if the client is closed
     */
    public RedisLock lock(byte[] name, LockOptions options) {
        Objects.requireNonNull(name, "name");
        try (hf_lock_options core = new hf_lock_options()) {
            core.setLease_ms(options.leaseMillis);
            core.setRenew(options.renew);
            core.setMax_hold_ms(options.maxHoldMillis);
            core.setReentrant(options.reentrant ? Core.HF_ON : Core.HF_OFF);
            core.setHeal(options.heal ? Core.HF_ON : Core.HF_OFF);
            core.setReplicas(options.replicas);
            core.setReplica_timeout_ms(options.replicaTimeoutMillis);
            long lock = call(client -> Core.hf_lock_open(client, name, options.owner, core));
            return new RedisLock(this, name, options, lock);
        }
    }

    /**
     * The client's counts. Sends nothing.
     *
     * @return the counts at this moment
     * @throws ClosedException if the client is closed
     */
    public ClientStats stats() {
        long tries = onlyTries.get();
        try (hf_stats stats = new hf_stats()) {
            call(client -> Core.hf_client_stats(client, stats));
            return new ClientStats(
                    stats.getHeld(),
                    stats.getWaiting(),
                    stats.getAcquired(),
                    stats.getWaited(),
                    Duration.of(stats.getWaited_us(), ChronoUnit.MICROS),
                    stats.getRefused() - tries,
                    stats.getUnknown(),
                    stats.getReleased(),
                    stats.getLost(),
                    stats.getRenewed());
        }
    }

    /**
     * Closes the client: ends waiting calls with a {@link ClosedException}, releases its holds and
     * closes its connections. From now on its locks and holds throw {@link ClosedException}. A
     * second close does nothing.
     *
     * <p>Takes one command timeout at most.
     */
    @Override
    public void close() {
        handle.close();
        threads.close();
    }

    /** The calling thread as an owner, the same at every call. */
    byte[] threadOwner() {
        return threadOwner.get();
    }

    private byte[] newThreadOwner() {
        long thread = THREADS.incrementAndGet();
        byte[] owner = handle.call(client -> Core.hf_client_owner(client, 't', thread));
        if (owner != null) {
            threads.watch(Thread.currentThread(), owner);
        }
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

    void watch(long number, Hold hold) {
        call(
                client -> {
                    completions.watch(client, number, hold);
                    return number;
                });
    }

    void countTry() {
        onlyTries.incrementAndGet();
    }

    void forget(long hold) {
        completions.forget(hold);
    }

    private <T> T call(LongFunction<T> function) {
        T answer = handle.call(function);
        if (answer == null) {
            throw new ClosedException("the client is closed");
        }
        return answer;
    }
}
