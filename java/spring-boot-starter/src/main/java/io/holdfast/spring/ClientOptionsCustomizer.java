package io.holdfast.spring;

import io.holdfast.ClientOptions;

/**
 * A bean that changes the options of the application's client, after the properties {@code
 * holdfast.*}: for options that no property can give, such as {@link ClientOptions#onAlarm onAlarm}
 * and {@link ClientOptions#executor executor}.
 */
@FunctionalInterface
public interface ClientOptionsCustomizer {
    /**
     * Changes the options.
     *
     * @param options the options of the properties, or of the customizer before this one
     * @return the options to use
     */
    ClientOptions customize(ClientOptions options);
}
