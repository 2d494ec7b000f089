package io.holdfast;

final class GateOverTcpTest extends GateContract {
    @Override
    HoldfastClient connect() {
        return RedisServer.shared().connect();
    }
}
