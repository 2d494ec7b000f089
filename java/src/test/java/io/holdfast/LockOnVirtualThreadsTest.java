package io.holdfast;

import org.junit.jupiter.api.extension.ExtendWith;

@ExtendWith(OnVirtualThread.class)
final class LockOnVirtualThreadsTest extends LockBehaviour {}
