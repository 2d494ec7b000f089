/**
 * Holdfast in Spring Boot: a {@link io.holdfast.HoldfastClient} from the properties {@code
 * holdfast.*}, the annotations {@link io.holdfast.spring.Locked} and {@link
 * io.holdfast.spring.OncePer} for the methods of beans, fence checks for JDBC and JPA, codecs for
 * results that are kept as JSON, {@link io.holdfast.spring.Idempotent} for the handlers of Spring MVC,
 * a health indicator, meters, and a lock registry for Spring Integration.
 */
package io.holdfast.spring;
