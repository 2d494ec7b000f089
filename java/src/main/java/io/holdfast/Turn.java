package io.holdfast;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * What {@link HoldfastLock#begin begin()} gives: the result of what is done once, or the turn to do
 * it. Whoever has the turn must {@link #finish finish} it, or release its {@link #hold}, which
 * passes the turn on.
 */
public interface Turn {
    /**
     * The result that another left.
     *
     * @return its bytes; empty if it is this caller's turn
     */
    Optional<byte[]> result();

    /**
     * The hold under which to do it, with its fence and its losses.
     *
     * @return the hold
     * @throws IllegalStateException if there is a result
     */
    Hold hold();

    /**
     * Releases the hold, and leaves a result for all that wait and for those that come while it
     * stays.
     *
     * @param result at most 16 MiB
     * @param ttl for how long it stays; at least 10 seconds
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     * @throws LockLostException if the hold was lost before; another may have its turn
     * @throws LockNotHeldException if it was released before
     * @throws ServerException if the server did not keep it: the next one has its turn
     * @throws HoldfastException if the server could not be asked
     */
    void finish(byte[] result, Duration ttl);

    /**
     * {@link #finish} without a thread that waits.
     *
     * @param result at most 16 MiB
     * @param ttl for how long it stays; at least 10 seconds
     * @return ends when the server has it; fails as {@link #finish} throws
     * @throws IllegalArgumentException if one is out of bounds; the turn stays
     * @throws IllegalStateException if there is a result
     */
    CompletableFuture<Void> finishAsync(byte[] result, Duration ttl);
}
