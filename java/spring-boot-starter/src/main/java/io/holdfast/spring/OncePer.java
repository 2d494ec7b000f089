package io.holdfast.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.core.annotation.AliasFor;

/**
 * A method of a bean that only one host runs in each period; on the other hosts a call does nothing.
 * For {@code @Scheduled} methods, which run on every host.
 *
 * <pre><code>
 * &#64;Scheduled(cron = "0 0 3 * * *")
 * &#64;OncePer("23h")
 * void nightly() {
 * </code></pre>
 *
 * <p>If a call throws, or its process dies and its lease ends, the next call has the turn;
 * see {@link io.holdfast.HoldfastClient#oncePer(String, java.time.Duration,
 * java.util.concurrent.Callable)}. If the server cannot be asked, the call throws; the scheduler
 * logs it and goes on. The properties {@code holdfast.lock.*} are the options of its lock.
 *
 * <p>The method returns nothing, or an {@code Optional}, which is empty if it is not this call's
 * turn.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface OncePer {
    /**
     * The same as {@link #period()}, for use alone.
     *
     * @return the period
     */
    @AliasFor("period")
    String value() default "";

    /**
     * The period, counted from the start of the run: a little shorter than the schedule's interval.
     *
     * @return a time, as in {@link Locked}
     */
    @AliasFor("value")
    String period() default "";

    /**
     * The lock's name, as in {@link Locked#name()}.
     *
     * @return by default the names of the bean's class and of the method, separated by a dot
     */
    String name() default "";
}
