package io.holdfast;

import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(OnVirtualThread.class)
final class OnceOnVirtualThreadsTest extends OnceContract {
    @Override
    HoldfastClient connect() {
        return Holdfast.connect(RedisTest.SERVER.tcpUrl);
    }
}
