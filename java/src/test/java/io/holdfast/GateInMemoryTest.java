package io.holdfast;

import io.holdfast.testing.InMemoryHoldfast;

final class GateInMemoryTest extends GateContract {
    private final InMemoryHoldfast redis = new InMemoryHoldfast();

    @Override
    HoldfastClient connect() {
        return redis.connect();
    }
}
