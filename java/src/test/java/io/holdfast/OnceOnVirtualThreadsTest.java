package io.holdfast;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ExtendWith;

@Tag(Jvm.NEWEST)
@ExtendWith(OnVirtualThread.class)
final class OnceOnVirtualThreadsTest extends OnceContract {
    @Override
    HoldfastClient connect() {
        return RedisTest.SERVER.connect();
    }
}
