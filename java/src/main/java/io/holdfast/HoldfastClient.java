package io.holdfast;

import io.holdfast.internal.core.Bytes;
import io.holdfast.internal.core.Millis;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executors;
import java.util.function.LongConsumer;
import java.util.function.Supplier;

/**
 * A pool of connections to one Redis, and the holds acquired through it. {@link
 * Holdfast#connect(String)} makes it; a program needs only one. It is an interface, so that a test or
 * a framework can replace it.
 *
 * <p>Any thread may use and close it at any time.
 */
public interface HoldfastClient extends AutoCloseable {
    /**
     * The lock called {@code name}, with the default options. Sends nothing.
     *
     * @param name 1 to 4096 bytes in UTF-8; it must not end in {@code :hf}, digits, {@code :} and
     *     one letter, like the lock's own keys
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    default HoldfastLock lock(String name) {
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
    default HoldfastLock lock(String name, LockOptions options) {
        return lock(Bytes.of(Objects.requireNonNull(name, "name")), options);
    }

    /**
     * The lock whose name is these bytes, with the default options. Sends nothing.
     *
     * @param name see {@link #lock(String)}
     * @return a lock; all lock objects of one name are one lock
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    default HoldfastLock lock(byte[] name) {
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
    HoldfastLock lock(byte[] name, LockOptions options);

    /** The default rate of {@link #locks(String)}, which takes a fiftieth of a server's time. */
    int DEFAULT_RATE = 500;

    /**
     * Walks over all locks whose names match, on all nodes of a cluster, by SCAN, at the {@link
     * #DEFAULT_RATE}. Sends nothing yet.
     *
     * <p>It lists once each lock that is held or waited for during the whole walk. Of other
     * libraries' locks it lists Redisson's, and those for which a client of Holdfast waits. The user needs
     * the permission for SCAN.
     *
     * @param pattern as in Redis's KEYS: {@code *}, {@code ?}, {@code [a-z]}, {@code [^a]}, and a
     *     backslash before a special character
     * @return the walk; close it
     * @throws IllegalArgumentException if the pattern is empty or has more than 4096 bytes
     * @throws ClosedException if the client is closed
     */
    default Locks locks(String pattern) {
        return locks(pattern, DEFAULT_RATE);
    }

    /**
     * Walks over all locks whose names match.
     *
     * @param pattern see {@link #locks(String)}
     * @param rate the maximum number of reads per second; -1: no limit. Reading one lock takes the server
     *     some 30 microseconds; a search of 100 keys for locks counts as six reads
     * @return the walk; close it
     * @throws IllegalArgumentException if an argument is wrong
     * @throws ClosedException if the client is closed
     */
    Locks locks(String pattern, int rate);

    /**
     * A gate, which limits the number of passes in any period. Sends nothing. Give all gates of
     * one name the same limit and period; or store them once, and use {@link #gate(String)}.
     *
     * @param name see {@link #lock(String)}: a gate is a lock of that name, which each pass holds
     *     {@linkplain HoldfastLock#shared() shared} for the period; an exclusive holder of the lock
     *     keeps the gate shut
     * @param limit the number of passes, 1 to 9999999999
     * @param per the period: 10 milliseconds to 10 years, rounded up to milliseconds
     * @return a gate
     * @throws IllegalArgumentException if the name, the limit or the time is wrong
     * @throws ClosedException if the client is closed
     */
    default Gate gate(String name, long limit, Duration per) {
        return Gate.of(options -> lock(name, options), limit, per);
    }

    /**
     * The gate whose rate {@link #limit(String, long, Duration)} has stored. Sends nothing. If no
     * rate is stored, entering the gate throws a {@link LimitDiffersException}.
     *
     * @param name see {@link #lock(String)}
     * @return a gate
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    default Gate gate(String name) {
        return Gate.of(options -> lock(name, options));
    }

    /**
     * Stores the number of a name's permits, for all hosts. From then on a {@linkplain
     * HoldfastLock#shared() shared} lock with another number throws a {@link
     * LimitDiffersException}, and a lock without {@code permits} follows the stored number. A
     * change ends no hold; waiters follow it at once.
     *
     * @param name see {@link #lock(String)}
     * @param permits 1 to 9999999999; 0 removes the limit
     * @return the limit that was stored before; empty: none
     * @throws IllegalArgumentException if the name or the number is wrong
     * @throws LockUnknownException if the answer was lost
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    default Optional<LockLimit> limit(String name, long permits) {
        return limit(name, new LockLimit(permits, Duration.ZERO));
    }

    /**
     * Stores the rate of a gate with its name, like {@link #limit(String, long)}.
     *
     * @param name the name of the gate
     * @param passes 1 to 9999999999
     * @param per the period: 10 milliseconds to 10 years, rounded up to milliseconds
     * @return the limit that was stored before; empty: none
     * @throws IllegalArgumentException if an argument is wrong
     * @throws LockUnknownException if the answer was lost
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    default Optional<LockLimit> limit(String name, long passes, Duration per) {
        return limit(name, new LockLimit(passes, Duration.ofMillis(Millis.positive(per, "time"))));
    }

    /**
     * Stores a limit, such as the result of an earlier call; see {@link #limit(String,
     * long)}.
     *
     * @param name see {@link #lock(String)}
     * @param limit the limit
     * @return the limit that was stored before; empty: none
     * @throws IllegalArgumentException if an argument is wrong
     * @throws LockUnknownException if the answer was lost
     * @throws HoldfastException if the server could not be asked
     * @throws ClosedException if the client is closed
     */
    Optional<LockLimit> limit(String name, LockLimit limit);

    /**
     * Makes a call once for all its callers, and waits without limit: {@link
     * HoldfastLock#once} of the lock with this name and the default options.
     *
     * <pre>{@code
     * String rate = client.once("rate:EUR", Duration.ofMinutes(1), Codec.UTF_8, () -> vendor.rate("EUR"));
     * }</pre>
     *
     * @param <T> the type of the result
     * @param name the name of the call; see {@link #lock(String)}
     * @param ttl how long the result is kept; at least 10 seconds
     * @param codec encodes the result, in at most 16 MiB, and decodes it
     * @param call the call
     * @return the result
     * @throws InterruptedException if the thread is interrupted while it waits
     * @throws Exception the exceptions of the call and of that method
     */
    default <T> T once(String name, Duration ttl, Codec<T> codec, Callable<? extends T> call)
            throws Exception {
        return lock(name).once(ttl, Hold.FOREVER, codec, call);
    }

    /**
     * {@link #once once()} without a thread that waits; see {@link HoldfastLock#onceAsync}.
     *
     * @param <T> the type of the result
     * @param name the name of the call; see {@link #lock(String)}
     * @param ttl how long the result is kept; at least 10 seconds
     * @param codec encodes and decodes the result
     * @param call starts the call
     * @return the result
     */
    default <T> CompletableFuture<T> onceAsync(
            String name,
            Duration ttl,
            Codec<T> codec,
            Supplier<? extends CompletionStage<? extends T>> call) {
        return lock(name).onceAsync(ttl, Hold.FOREVER, codec, call);
    }

    /**
     * Makes a call once for all its callers, with options: {@link HoldfastLock#once(OnceOptions,
     * Callable)}.
     *
     * @param <T> the type of the result
     * @param name the name of the call; see {@link #lock(String)}
     * @param options how the call is made
     * @param call the call
     * @return the result
     * @throws Exception what the call throws, and the exceptions of that method
     */
    default <T> T once(String name, OnceOptions<T> options, Callable<? extends T> call)
            throws Exception {
        return lock(name).once(options, call);
    }

    /**
     * {@link #once(String, OnceOptions, Callable)} without a thread that waits.
     *
     * @param <T> the type of the result
     * @param name the name of the call; see {@link #lock(String)}
     * @param options how the call is made
     * @param call starts the call
     * @return the result
     */
    default <T> CompletableFuture<T> onceAsync(
            String name,
            OnceOptions<T> options,
            Supplier<? extends CompletionStage<? extends T>> call) {
        return lock(name).onceAsync(options, call);
    }

    /**
     * Returns the server's record of the call of this name: {@link HoldfastLock#onceResult()}.
     *
     * @param name the name of the call
     * @return empty if there is no record
     */
    default Optional<Outcome> onceResult(String name) {
        return lock(name).onceResult();
    }

    /**
     * Reads the record of the call of this name, and forgets it: the next caller makes the call.
     *
     * @param name the name of the call
     * @param force also forget a call that is in progress: its hold ends
     * @return whether there was a record to forget
     */
    default boolean onceForget(String name, boolean force) {
        Optional<Outcome> outcome = onceResult(name);
        outcome.ifPresent(known -> known.forget(force));
        return outcome.isPresent();
    }

    /**
     * Several locks that are acquired all or none, with the default options. Sends nothing.
     *
     * @param names 1 to 100 different names, in any order; see {@link #lock(String)}
     * @return the locks
     * @throws IllegalArgumentException if a name is wrong, or is there twice
     * @throws ClosedException if the client is closed
     */
    default HoldfastLocks locksAll(String... names) {
        return locksAll(List.of(names), LockOptions.defaults());
    }

    /**
     * Several locks that are acquired all or none. Sends nothing.
     *
     * @param names 1 to 100 different names, in any order; see {@link #lock(String)}
     * @param options the lease and other settings of each
     * @return the locks
     * @throws IllegalArgumentException if a name or an option is wrong, or a name is there twice
     * @throws ClosedException if the client is closed
     */
    default HoldfastLocks locksAll(Collection<String> names, LockOptions options) {
        return locksAll(names.stream().map(name -> lock(name, options)).toList());
    }

    /**
     * Several locks of mixed kinds, exclusive and {@linkplain HoldfastLock#shared() shared} ones,
     * that are acquired all or none. Sends nothing.
     *
     * <pre>{@code
     * HoldfastLock seats = client.lock("seats", LockOptions.defaults().permits(5));
     * client.locksAll(List.of(client.lock("order:7"), stock.shared(), seats.shared()));
     * }</pre>
     *
     * @param locks 1 to 100 locks of this client with different names, in any order, each with its
     *     own options
     * @return the locks
     * @throws IllegalArgumentException if a name is there twice, or a lock is another client's
     */
    HoldfastLocks locksAll(Collection<? extends HoldfastLock> locks);

    /**
     * Work that only one caller does in each period, for a scheduler that runs on every host. The
     * caller whose turn it is does the work, and then the lock stays held for the rest of the period, as
     * after {@link Hold#keep(Duration)}. If a run throws, or its process dies and its lease ends, the next
     * call does the work. Two calls of one thread exclude each other, too.
     *
     * @param <T> the result
     * @param name the lock's name; see {@link #lock(String)}
     * @param period counted from the start of the work; positive, up to 10 years
     * @param work the work
     * @return a call that returns the result, or empty at once if it is not the caller's turn. It throws
     *     the exceptions of the work, and the exceptions of {@link HoldfastLock#acquire(Duration)}
     *     and {@link Hold#keep(Duration)}
     * @throws IllegalArgumentException if the name is wrong, or the period is out of these bounds
     * @throws ClosedException if the client is closed
     */
    default <T> Callable<Optional<T>> oncePer(String name, Duration period, Callable<T> work) {
        return oncePer(name, period, LockOptions.defaults(), work);
    }

    /**
     * Work that only one caller does in each period, as {@link #oncePer(String, Duration,
     * Callable)}, with the options of its lock.
     *
     * @param <T> the result
     * @param name the lock's name; see {@link #lock(String)}
     * @param period counted from the start of the work; positive, up to 10 years
     * @param options as for {@link #lock(String, LockOptions)}, but never reentrant
     * @param work the work
     * @return a call as that of {@link #oncePer(String, Duration, Callable)}
     * @throws IllegalArgumentException if the name is wrong, or the period is out of these bounds
     * @throws ClosedException if the client is closed
     */
    default <T> Callable<Optional<T>> oncePer(
            String name, Duration period, LockOptions options, Callable<T> work) {
        Objects.requireNonNull(work, "work");
        return new OncePer<>(lock(name, options.reentrant(false)), period, work);
    }

    /**
     * Work that only one caller does in each period, as {@link #oncePer(String, Duration,
     * Callable)}; the others do nothing.
     *
     * @param name the lock's name; see {@link #lock(String)}
     * @param period counted from the start of the work; positive, up to 10 years
     * @param work the work
     * @return the work; if its thread is interrupted, the thread stays interrupted, and the work is not
     *     done
     * @throws IllegalArgumentException if the name is wrong, or the period is out of these bounds
     * @throws ClosedException if the client is closed
     */
    default Runnable oncePer(String name, Duration period, Runnable work) {
        return oncePer(name, period, LockOptions.defaults(), work);
    }

    /**
     * Work that only one caller does in each period, as {@link #oncePer(String, Duration,
     * Runnable)}, with the options of its lock.
     *
     * @param name the lock's name; see {@link #lock(String)}
     * @param period counted from the start of the work; positive, up to 10 years
     * @param options as for {@link #lock(String, LockOptions)}, but never reentrant
     * @param work the work
     * @return the work, as that of {@link #oncePer(String, Duration, Runnable)}
     * @throws IllegalArgumentException if the name is wrong, or the period is out of these bounds
     * @throws ClosedException if the client is closed
     */
    default Runnable oncePer(
            String name, Duration period, LockOptions options, Runnable work) {
        Objects.requireNonNull(work, "work");
        Callable<Optional<Object>> once =
                oncePer(name, period, options, Executors.callable(work));
        return () -> {
            try {
                once.call();
            } catch (RuntimeException e) {
                throw e;
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } catch (Exception e) {
                throw new AssertionError(e); // a Runnable throws no other exception
            }
        };
    }

    /**
     * A candidate for leadership, with the default lease. Sends nothing until it starts.
     *
     * @param name the lock's name: of all its candidates, one leads
     * @param elected takes the fence, in a thread of its own. It may take as long as it likes, and
     *     must return soon after it is interrupted: only then does this candidate stand again. If
     *     it throws, the leader resigns, and stands again after a pause: 100 milliseconds, and each
     *     time up to twice as long, up to 30 seconds, until a term ends without an exception
     * @param lost runs when the leadership is lost, before {@code elected} is interrupted
     * @param resigned runs likewise when the leadership ends by {@link Leader#resign()} or {@link
     *     Leader#close()}; then the lock is released
     * @return the candidate
     * @throws IllegalArgumentException if the name is wrong
     * @throws ClosedException if the client is closed
     */
    default Leader leader(String name, LongConsumer elected, Runnable lost, Runnable resigned) {
        return leader(name, Duration.ofSeconds(10), elected, lost, resigned);
    }

    /**
     * A candidate for leadership. Sends nothing until it starts.
     *
     * @param name the lock's name: of all its candidates, one leads
     * @param lease the longest time after a leader's death until another leads; it is renewed
     * @param elected as in {@link #leader(String, LongConsumer, Runnable, Runnable)}
     * @param lost see there
     * @param resigned see there
     * @return the candidate
     * @throws IllegalArgumentException if the name or the lease is wrong, or the lease never ends
     * @throws ClosedException if the client is closed
     */
    default Leader leader(
            String name,
            Duration lease,
            LongConsumer elected,
            Runnable lost,
            Runnable resigned) {
        if (lease.equals(Hold.FOREVER)) {
            throw new IllegalArgumentException("a leader needs a lease that ends");
        }
        LockOptions options =
                LockOptions.defaults()
                        .lease(lease)
                        .renew(true)
                        .reentrant(false)
                        .note("leader election") // shown by `holdfast ls`
                        .whole();
        return new Leader(lock(name, options), lease, elected, lost, resigned);
    }

    /**
     * Returns the client's counts. Sends nothing.
     *
     * @return the counts at this moment
     * @throws ClosedException if the client is closed
     */
    ClientStats stats();

    /**
     * Asks every server, in a Cluster each master, whether it answers: for a health check. With
     * several masters a majority must answer; {@link #survey} shows each of them. Takes at most one connect
     * timeout for each server.
     *
     * @throws ConnectionFailedException if a server cannot be reached, or a majority of the masters
     * @throws ServerException if a server answers with an error
     * @throws ClosedException if the client is closed
     */
    void ping();

    /**
     * Checks the settings of the servers that matter to locks. Writes nothing; a setting that
     * the user may not read becomes a note.
     *
     * @param name a lock's name, to check the user's permissions for its keys; null:
     *     permissions are not checked
     * @return the findings, server by server
     * @throws ConnectionFailedException if a server cannot be reached
     * @throws ServerException if a server answers with an error
     * @throws IllegalArgumentException if no lock may have that name
     * @throws ClosedException if the client is closed
     */
    List<Finding> survey(String name);

    /**
     * Closes the client: ends waiting calls with a {@link ClosedException}, releases its holds and
     * closes its connections. From now on its locks and holds throw {@link ClosedException}. A
     * second close does nothing.
     *
     * <p>Takes at most one command timeout. If a {@link #ping()} or a {@link #survey(String)} of another
     * thread is waiting for a server that does not answer, the client is closed when that call ends.
     */
    @Override
    void close();
}
