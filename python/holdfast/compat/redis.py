"""redis-py's Lock, on Holdfast: a code base moves over in one line.

lock = redis.lock("stock", timeout=10, lock_class=holdfast.compat.redis.Lock)

The lock connects as the redis.Redis client does, over TCP, TLS, a unix socket or Sentinel: each
connection pool gets one holdfast.Client, opened on first use with the pool's address, user,
password, certificates and timeouts. Forks of redis-py work, too, if they kept its attributes. For
redis.asyncio there is holdfast.compat.redis_asyncio.

The constructor, methods, answers, exceptions and the key's name are the same as in redis-py. This
lock excludes processes that still use redis-py's Lock on the same key, and they exclude it.

The differences:

- `sleep` is accepted and not used: no waiter polls. Waiters get the lock in order of arrival, and a
  timed wait lasts its whole time, where redis-py gives up a `sleep` earlier.
- The key is a hash, not a string with the token: a GET of the key gets WRONGTYPE. So does the
  locked() of redis-py's own Lock while one of these holds the key.
- A `token` given to acquire() is the holder's name, as holdfast.Lock.inspect() shows it, and
  permits nothing: `lock.local.token` is gone. With thread_local=False another thread can release;
  another process cannot.
- Without a `timeout` the lock is renewed every few seconds until it is released. It ends with its
  process, or with the Lock object (which warns, with ResourceWarning), where redis-py's lock would
  never end.
- A `timeout` is from 0.01 seconds to ten years, and extend() does not shorten.
- There is no register_scripts(), do_acquire() or other internal method to override.
- The first use raises UnsupportedError, with its remedy, for: Redis Cluster; a replica
  (slave_for()); the TLS settings ssl_check_hostname=False together with a checked certificate,
  ssl_ca_data, ssl_password, ssl_ciphers, ssl_min_version above 1.2, OCSP and verify flags; and
  sentinels whose TLS or password differs from their servers'. A credential provider is asked once.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Literal

import holdfast

from ._redis import BaseLock, LockError, LockNotOwnedError, connect

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError", "connect"]


class Lock(BaseLock[holdfast.Hold]):
    """redis.lock.Lock with the same constructor and methods; the module lists the differences."""

    def _lock(self) -> holdfast.Lock:
        lock = connect(self.redis).lock(*self._arguments())
        # As redis-py's lock, which blocks the loop, and excludes its tasks.
        lock._in_loops = True
        return lock

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock, by default as given to the constructor; return whether it is held.

        sleep             Not used.
        blocking          False tries once.
        blocking_timeout  Seconds to wait.
        token             The holder's name; an acquire with the same token still has to wait.

        Raises redis-py's ConnectionError and ResponseError. If the cause of a ConnectionError is
        LockUnknown, the lock may be held, unknown to any caller, until its lease ends.
        """
        seconds, owner = self._patience(blocking, blocking_timeout, token)
        with self._asking():
            try:
                self.local.hold = self._lock().hold(seconds, owner=owner)
            except holdfast.LockTimeout:
                return False
        return True

    def release(self) -> None:
        """Release. Raises LockError if it is not held, LockNotOwnedError if it was lost."""
        hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
        self.local.hold = None
        with self._asking("Cannot release a lock that's no longer owned"):
            hold.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Make the lock last additional_time longer; with replace_ttl, additional_time from now."""
        hold = self._extensible("extend")
        with self._asking("Cannot extend a lock that's no longer owned"):
            hold.extend(additional_time, bool(replace_ttl))
        return True

    def reacquire(self) -> Literal[True]:
        """Make the lock last its whole timeout again, counted from now."""
        hold = self._extensible("reacquire")
        with self._asking("Cannot reacquire a lock that's no longer owned"):
            hold.extend(self.timeout, True)
        return True

    def locked(self) -> bool:
        """Ask the server whether the lock is held."""
        with self._asking():
            return self._lock().locked()

    def owned(self) -> bool:
        """Ask the server whether this object (with thread_local: this thread) holds the lock."""
        hold = self._mine()
        try:
            if hold is not None:
                with self._asking():
                    hold.check()
        except LockNotOwnedError:
            return False
        return hold is not None

    def __enter__(self) -> Self:
        """Acquire. Raises LockError if others kept the lock for the blocking_timeout."""
        if not self.acquire():
            raise self._error(LockError, "Unable to acquire lock within the time specified")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release; raises as release(), or logs."""
        try:
            self.release()
        except LockError:
            self._excuse()
