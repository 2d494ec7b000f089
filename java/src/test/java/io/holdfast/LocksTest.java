package io.holdfast;

/** Several locks at once, on a Redis. */
final class LocksTest extends LocksContract {
    @Override
    HoldfastClient connect() {
        return RedisServer.shared().connect();
    }
}
