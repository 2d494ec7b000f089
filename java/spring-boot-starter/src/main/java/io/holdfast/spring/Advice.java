package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.micrometer.HoldfastObservations;
import org.aopalliance.intercept.MethodInvocation;

/** The work of an annotation around the calls of one method. */
interface Advice {
    /** Returns the method. */
    Target target();

    /** Carries the annotation out around a call. */
    Object invoke(MethodInvocation call, HoldfastClient client, HoldfastObservations observations)
            throws Throwable;

    /**
     * Checks with the library whether these names and times are valid. Sends nothing.
     *
     * @throws IllegalArgumentException if not
     */
    void check(HoldfastClient client);
}
