package io.holdfast;

final class LockOverTcpTest extends LockBehaviour {}
