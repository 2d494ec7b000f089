package io.holdfast;

import io.holdfast.testing.InMemoryHoldfast;

/** once() without a server. */
final class OnceInMemoryTest extends OnceContract {
    private final InMemoryHoldfast redis = new InMemoryHoldfast();

    @Override
    HoldfastClient connect() {
        return redis.connect();
    }
}
