/**
 * A distributed lock on Redis.
 *
 * <pre>{@code
 * try (HoldfastClient client = Holdfast.connect("redis://localhost")) {
 *     RedisLock lock = client.lock("stock");
 *     try (Hold hold = lock.acquire(Duration.ofSeconds(5))) {
 *         warehouse.write(item, hold.fence());
 *     }
 * }
 * }</pre>
 *
 * <p>{@link io.holdfast.Holdfast} opens a {@link io.holdfast.HoldfastClient}, which makes {@link
 * io.holdfast.RedisLock}s. A lock is a {@link java.util.concurrent.locks.Lock}, and hands out
 * {@link io.holdfast.Hold}s for {@code try} blocks.
 *
 * <p>Who waits stands in one queue with all others, in every process and language, and is served
 * in the order of arrival. Holds are renewed in the background, unless a lease was given, until
 * they are released; {@link io.holdfast.Hold#onLost} tells when one is lost all the same. Nothing
 * here blocks a virtual thread's carrier for longer than one round trip; {@link
 * io.holdfast.RedisLock#acquireAsync()} blocks nobody.
 *
 * <h2>What is thrown</h2>
 *
 * <ul>
 *   <li>{@link io.holdfast.HoldfastException} and its subclasses: what went wrong outside of this
 *       program.
 *   <li>{@link io.holdfast.LockNotHeldException}, an {@link IllegalMonitorStateException}: the
 *       caller does not hold the lock; {@link io.holdfast.LockLostException}: not any more.
 *   <li>{@link io.holdfast.ClosedException}, an {@link IllegalStateException}: the client is
 *       closed.
 *   <li>{@link IllegalArgumentException}: an argument is wrong; nothing was done.
 * </ul>
 *
 * <p>Everything here may be used from any thread at any time.
 */
package io.holdfast;
