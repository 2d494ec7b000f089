package io.holdfast;

import java.time.Duration;
import java.util.Iterator;
import java.util.Spliterator;
import java.util.Spliterators;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * A walk over all locks, from {@link HoldfastClient#locks(String)}.
 *
 * <pre>{@code
 * try (Locks locks = client.locks("order:*")) {
 *     locks.stream().filter(lock -> lock.waiters() > 10).forEach(System.out::println);
 * }
 * }</pre>
 *
 * <p>If a node of a cluster does not answer, {@link #hasNext()} or {@link #next()} throws once,
 * with a message that names the node; the next call then lists the other nodes' locks.
 */
public interface Locks extends Iterator<LockInfo>, AutoCloseable {
    /**
     * Whether there is another lock; asks the servers.
     *
     * @throws HoldfastException if not all locks of a node can be listed
     * @throws ClosedException if the walk or the client is closed
     */
    @Override
    boolean hasNext();

    /**
     * The locks that the walk has not returned yet, in order.
     *
     * @return a stream, each step of which asks the servers as {@link #hasNext()} does
     */
    default Stream<LockInfo> stream() {
        int kind = Spliterator.ORDERED | Spliterator.NONNULL;
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(this, kind), false)
                .onClose(this::close);
    }

    /**
     * The progress of the walk. Sends nothing, and never waits for a thread in {@link #hasNext()}.
     *
     * @return the counts at this moment
     * @throws ClosedException if the walk is closed
     */
    Progress progress();

    /** Ends the walk. A second close does nothing. */
    @Override
    void close();

    /**
     * The progress of a walk.
     *
     * @param locks the number of locks that it has returned
     * @param keysSeen the approximate number of the servers' keys that it has seen
     * @param keys the approximate number of all keys; -1 if the servers do not report it
     * @param refused the number of keys left out because the user has no permission for them
     * @param commands the number of commands that it has sent
     * @param roundTrips the number of round trips that the commands took
     * @param answerTime how long all answers took together, in the network and in the servers
     */
    record Progress(
            long locks,
            long keysSeen,
            long keys,
            long refused,
            long commands,
            long roundTrips,
            Duration answerTime) {}
}
