package io.holdfast;

final class SharedOverTcpTest extends SharedContract {
    @Override
    HoldfastClient connect() {
        return RedisServer.shared().connect();
    }
}
