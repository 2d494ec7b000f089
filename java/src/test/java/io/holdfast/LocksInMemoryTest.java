package io.holdfast;

import io.holdfast.testing.InMemoryHoldfast;

/** Several locks at once, without a server. */
final class LocksInMemoryTest extends LocksContract {
    private final InMemoryHoldfast redis = new InMemoryHoldfast();

    @Override
    HoldfastClient connect() {
        return redis.connect();
    }
}
