package io.holdfast.spring;

import io.holdfast.HoldfastClient;
import org.springframework.boot.actuate.health.AbstractHealthIndicator;
import org.springframework.boot.actuate.health.Health;

/**
 * Checks that every server of a client answers, within its connect timeout. Keep it out of the
 * liveness group: a restart of the application does not repair Redis.
 */
public final class HoldfastHealthIndicator extends AbstractHealthIndicator {
    private final HoldfastClient client;

    /**
     * Makes the indicator of a client.
     *
     * @param client the client whose servers are checked
     */
    public HoldfastHealthIndicator(HoldfastClient client) {
        super("Redis does not answer Holdfast");
        this.client = client;
    }

    @Override
    protected void doHealthCheck(Health.Builder health) {
        client.ping();
        health.up();
    }
}
