package io.holdfast;

final class SharedOverTcpTest extends SharedContract {
    @Override
    HoldfastClient connect() {
        return Holdfast.connect(RedisServer.shared().tcpUrl);
    }
}
