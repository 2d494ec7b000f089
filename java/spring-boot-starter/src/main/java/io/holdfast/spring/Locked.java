package io.holdfast.spring;

import io.holdfast.LockTimeoutException;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.core.annotation.AliasFor;

/**
 * A method of a bean that runs under a lock, for which it waits. Calls from other beans take
 * the lock; a call from the bean to itself does not.
 *
 * <pre><code>
 * &#64;Locked(name = "order:#{#id}", timeout = "5s")
 * &#64;Transactional
 * public void refund(long id) {
 * </code></pre>
 *
 * <p>The lock is outside {@code @Transactional} and all other advice but {@code @Async}: the
 * transaction ends before the release, unless the caller had begun it. A thread that holds the lock
 * may enter again. {@link CurrentHold} gives the method its hold, with the fence.
 *
 * <p>The method may return a {@link java.util.concurrent.CompletableFuture} or {@link
 * java.util.concurrent.CompletionStage}: then no thread waits for the lock, and it is kept until
 * the future is done. Each such call is its own owner. Cancelling the future leaves the queue, or
 * cancels the method's own future and then releases the lock. The method is called on the bean
 * {@code applicationTaskExecutor}, if there is one, or else on a thread of Holdfast;
 * with {@code @Async}, on the thread that {@code @Async} gave it, which waits.
 *
 * <p>The caller can get these exceptions, besides the method's own:
 *
 * <ul>
 *   <li>{@link LockBusyException}, a {@link LockTimeoutException}: other owners kept the lock for the
 *       whole timeout; the method was not called
 *   <li>{@link io.holdfast.LockLostException}: the lock was lost during the method, and another owner
 *       may have held it since; it is thrown after the method, whose transaction is committed
 *   <li>{@link io.holdfast.HoldfastException}: the server could not be asked, before or after the
 *       method
 *   <li>{@link io.holdfast.LockDeadlockException}: the caller holds the lock shared, and the method
 *       asks for it exclusively, or for more of its permits
 *   <li>{@link io.holdfast.ClosedException}: the application is shutting down
 * </ul>
 *
 * <p>All texts may have placeholders, as in <code>${orders.timeout}</code>. Times are written as
 * usual in Spring Boot: {@code 500ms}, {@code 5s}, {@code PT5S}; a number alone means
 * milliseconds.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface Locked {
    /**
     * The same as {@link #name()}, for use alone.
     *
     * @return the lock's name
     */
    @AliasFor("name")
    String value() default "";

    /**
     * The lock's name, see {@link io.holdfast.HoldfastClient#lock(String)}. <code>#{…}</code>
     * encloses an expression of Spring: <code>#{#id}</code> is a parameter, <code>#{#order.id}</code> its
     * property, <code>#{#p0}</code> the first parameter, <code>#{region}</code> a property of the
     * bean itself, and <code>#{&#64;tenant.id}</code> a property of another bean. Their values go through
     * {@link io.holdfast.Holdfast#quote(String)}, so they may contain any user input. A null, or
     * an object without its own {@code toString()}, is refused.
     *
     * @return the lock's name
     */
    @AliasFor("value")
    String name() default "";

    /**
     * How long to wait while others hold the lock; zero tries once.
     *
     * @return a time; by default {@code holdfast.lock.timeout}, or without limit
     */
    String timeout() default "";

    /**
     * How long the lock stays held after its holder is gone.
     *
     * @return a time; by default {@code holdfast.lock.lease}, or 10 seconds
     */
    String lease() default "";

    /**
     * Whether the hold is renewed until the method has ended; false: it ends with its lease.
     *
     * @return true by default, unless {@code holdfast.lock.renew} is false
     */
    boolean renew() default true;

    /**
     * The time after which the hold ends at the latest, so that a stuck method does not keep the
     * lock for ever.
     *
     * @return a time; by default {@code holdfast.lock.max-hold}, or no limit
     */
    String maxHold() default "";

    /**
     * Keeps the lock for the rest of this time, counted from the acquire, even if the method
     * throws.
     *
     * @return a time; by default the lock is released at once
     */
    String atLeast() default "";

    /**
     * Whether other holders with {@code shared} may hold the lock beside this method, as readers do.
     *
     * @return false by default
     */
    boolean shared() default false;

    /**
     * The number of holders at once, if the lock is {@link #shared()}: a semaphore. Give all methods
     * the same number, or store it with the name: {@link io.holdfast.HoldfastClient#limit(String,
     * long)}.
     *
     * @return 0 by default: the number that is stored with the name, or no limit
     */
    long permits() default 0;

    /**
     * The number of permits that each call takes if the lock is {@link #shared()}.
     *
     * @return 1 by default
     */
    long weight() default 1;

    /**
     * The head start of a call that has to wait: it overtakes calls that arrived up to that time before
     * it, see {@link io.holdfast.LockOptions#ahead}.
     *
     * @return a time, at most an hour; none by default
     */
    String ahead() default "";
}
