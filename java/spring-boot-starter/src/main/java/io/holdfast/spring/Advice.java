package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import io.holdfast.micrometer.HoldfastObservations;
import org.aopalliance.intercept.MethodInvocation;

/** What an annotation makes of the calls of one method. */
interface Advice {
    /** The method. */
    Target target();

    /** Does it, around a call. */
    Object invoke(MethodInvocation call, HoldfastClient client, HoldfastObservations observations)
            throws Throwable;

    /**
     * Asks the library whether it takes these names and times. Sends nothing.
     *
     * @throws IllegalArgumentException if not
     */
    void check(HoldfastClient client);
}
