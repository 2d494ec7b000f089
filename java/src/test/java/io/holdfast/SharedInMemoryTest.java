package io.holdfast;

import io.holdfast.testing.InMemoryHoldfast;

final class SharedInMemoryTest extends SharedContract {
    private final InMemoryHoldfast redis = new InMemoryHoldfast();

    @Override
    HoldfastClient connect() {
        return redis.connect();
    }
}
