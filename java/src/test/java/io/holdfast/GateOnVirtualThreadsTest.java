package io.holdfast;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

@Tag(Jvm.NEWEST)
@ExtendWith(OnVirtualThread.class)
final class GateOnVirtualThreadsTest extends GateContract {
    @Override
    HoldfastClient connect() {
        return RedisServer.shared().connect();
    }
}
