package io.holdfast.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The work of a leader: of all applications that have this method, one application runs it at a
 * time; see {@link io.holdfast.Leader}. The application stands as a candidate from its start to its
 * end.
 *
 * <pre><code>
 * &#64;Leading("matcher")
 * void match(long fence) throws InterruptedException {
 * </code></pre>
 *
 * <p>The method of a singleton bean takes the fence, as a {@code long}, or nothing. It runs in a
 * thread of its own, which is interrupted when the leadership ends: then it must return soon. If
 * it returns earlier, this application continues to lead. If it throws, the application resigns, and
 * stands again after a pause of 100 milliseconds to 30 seconds. A method whose work would go on
 * elsewhere, such as an {@code @Async} method or a method that returns a future or a {@code Mono}, is
 * refused at startup. {@link HoldfastLeaders} has the candidates.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface Leading {
    /**
     * The lock's name, with placeholders such as {@code ${region}}.
     *
     * @return the name
     */
    String value();

    /**
     * The longest time after a leader's death until another application leads.
     *
     * @return a time, as in {@link Locked}
     */
    String lease() default "10s";
}
