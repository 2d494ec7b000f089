package io.holdfast;

import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(OnVirtualThread.class)
final class GateOnVirtualThreadsTest extends GateContract {
    @Override
    HoldfastClient connect() {
        return Holdfast.connect(RedisServer.shared().tcpUrl);
    }
}
