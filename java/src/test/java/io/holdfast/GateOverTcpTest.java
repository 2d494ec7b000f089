package io.holdfast;

final class GateOverTcpTest extends GateContract {
    @Override
    HoldfastClient connect() {
        return Holdfast.connect(RedisServer.shared().tcpUrl);
    }
}
