package io.holdfast;

final class LockOverUnixSocketTest extends LockBehaviour {
    @Override
    String url() {
        return RedisTest.SERVER.unixUrl;
    }
}
