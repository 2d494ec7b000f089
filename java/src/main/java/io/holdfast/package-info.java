/**
 * A distributed lock on Redis.
 *
 * <pre>{@code
 * try (HoldfastClient client = Holdfast.connect("redis://localhost")) {
 *     HoldfastLock lock = client.lock("stock");
 *     try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
 *         warehouse.write(item, hold.fence());
 *     }
 * }
 * }</pre>
 *
 * <p>{@link io.holdfast.Holdfast} opens a {@link io.holdfast.HoldfastClient}, which makes {@link
 * io.holdfast.HoldfastLock}s. A lock is a {@link java.util.concurrent.locks.Lock}, and also gives
 * {@link io.holdfast.Hold}s for {@code try} blocks.
 *
 * <p>The waiters of all processes and languages stand in one queue, and get the lock in order of
 * arrival. The client renews holds in the background until they are released, whatever their lease
 * is; {@link io.holdfast.Hold#onLost} reports a hold that is lost all the same. A virtual thread
 * never waits in native code; {@link io.holdfast.HoldfastLock#acquireAsync()} needs no thread. For
 * tests there is {@link io.holdfast.testing}.
 *
 * <h2>Exceptions</h2>
 *
 * <ul>
 *   <li>{@link io.holdfast.HoldfastException} and its subclasses: something failed outside this
 *       program.
 *   <li>{@link io.holdfast.LockNotHeldException}, an {@link IllegalMonitorStateException}: the
 *       caller does not hold the lock; {@link io.holdfast.LockLostException}: it no longer does.
 *   <li>{@link io.holdfast.LockDeadlockException}, an {@link IllegalStateException}: the caller
 *       would wait for a hold of its own, a fault of the program.
 *   <li>{@link io.holdfast.ClosedException}, an {@link IllegalStateException}: the client is
 *       closed.
 *   <li>{@link IllegalArgumentException}: an argument is wrong; nothing was done.
 * </ul>
 *
 * <p>Any thread may use everything here at any time.
 */
package io.holdfast;
