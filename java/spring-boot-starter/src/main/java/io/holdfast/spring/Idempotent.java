package io.holdfast.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.core.annotation.AliasFor;

/**
 * A handler of Spring MVC that is called at most once for each {@code Idempotency-Key}, on all hosts,
 * by the IETF's draft for that header.
 *
 * <pre><code>
 * &#64;PostMapping("/charges")
 * &#64;Idempotent("charge")
 * Receipt charge(&#64;RequestBody Order order) {
 * </code></pre>
 *
 * <p>A request with the key of an earlier request gets the answer of that request, with its status,
 * body, {@code Content-Type} and {@code Location}, and with {@code Idempotent-Replayed: true}.
 * In all other cases the handler is not called either, and the answer is a problem ({@code
 * application/problem+json}):
 *
 * <ul>
 *   <li>400: the key is missing, or is not 1 to 255 printable characters of ASCII, with or without
 *       quotation marks
 *   <li>409 with {@code Retry-After}: the earlier request is in progress
 *   <li>409 without it: the outcome of the earlier request is unknown, because its host died, its
 *       handler threw, or its answer was 5xx. This lasts until the call is settled: {@link
 *       io.holdfast.HoldfastClient#onceResult}, or {@code holdfast once} in the shell
 *   <li>413: the body has more than 1 MiB
 *   <li>415: the body is {@code multipart}
 *   <li>422: the earlier request had another method, path, query or body
 *   <li>503: Redis could not be asked
 * </ul>
 *
 * <p>Answers of 2xx, 3xx and 4xx are kept, even those that an {@code @ExceptionHandler} makes of
 * exceptions. A request that is refused before its handler is called, because its body cannot be
 * read or fails validation, leaves nothing behind: the key may be used again. An answer that cannot
 * be kept still goes to its own client; for other clients the outcome is unknown.
 *
 * <p>The key belongs to the user: the name of the lock is {@code idempotent:}, the scope, the name
 * of the request's principal, if there is one, and the key, separated by colons. The handler must
 * answer before it returns: {@code @Async} handlers and those that return futures, streams and the like
 * are refused at startup, and in WebFlux all handlers are. A forward to the handler counts as a
 * request. An include ({@code RequestDispatcher.include}) does not: no fragment can refuse a request, and
 * the handler is called as if it had no annotation.
 */
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
@Documented
public @interface Idempotent {
    /**
     * The same as {@link #scope()}, for use alone.
     *
     * @return the scope
     */
    @AliasFor("scope")
    String value() default "";

    /**
     * The text before the key in the lock's name, so that the keys of different handlers do not
     * collide.
     *
     * @return text, with placeholders; by default the names of the controller's class and of the
     *     method, separated by a dot
     */
    @AliasFor("value")
    String scope() default "";

    /**
     * Whether a request must have a key. If not, a request without a key is carried out
     * each time.
     *
     * @return true by default
     */
    boolean required() default true;

    /**
     * How long an answer is kept.
     *
     * @return a time, as in {@link Locked}: 10 seconds to 10 years
     */
    String ttl() default "24h";
}
