"""redis-py's Lock, on Holdfast: a code base moves over in one line.

lock = redis.lock("stock", timeout=10, lock_class=holdfast.compat.redis.Lock)

The lock is where the redis.Redis client is, over TCP, TLS, a unix socket or Sentinel: one
holdfast.Client for each connection pool, opened at the first use with the pool's address, user,
password, certificates and timeouts. Also for a fork of redis-py that has kept its shape. For
redis.asyncio there is holdfast.compat.redis_asyncio.

What is as with redis-py: constructor, methods, answers, exceptions, the key's name; a process
that still uses redis-py's Lock on the same key is excluded, and excludes.

What is not:

- `sleep` is taken and not used: nobody polls. Waiters are served in order of arrival, and a timed
  wait lasts its whole time, where redis-py gives up a `sleep` earlier.
- The key is a hash, not a string with the token: who reads it with GET gets WRONGTYPE. So does
  the locked() of redis-py's own Lock while one of these holds the key.
- A `token` given to acquire() is the holder's name, as holdfast.Lock.inspect() shows it, and
  permits nothing: `lock.local.token` is gone. With thread_local=False another thread releases;
  another process cannot.
- Without a `timeout` the lock is renewed every few seconds until it is released: it ends with its
  process, or with the Lock object (which warns, with ResourceWarning), where redis-py's would
  stand for ever.
- A `timeout` is from 0.01 seconds to ten years, and extend() does not shorten.
- register_scripts(), do_acquire() and the other inner parts are not there to be overridden.
- UnsupportedError at the first use, with what to do: Cluster; a replica (slave_for()); of TLS
  ssl_check_hostname=False together with a checked certificate, ssl_ca_data, ssl_password,
  ssl_ciphers, ssl_min_version above 1.2, OCSP and verify flags; sentinels whose TLS or password
  differs from their servers'. A credential provider is asked once.
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
    """redis.lock.Lock with the same constructor and methods; what differs, the module says."""

    def _lock(self) -> holdfast.Lock:
        # Every acquire is for itself, as every one of redis-py's has a token of its own.
        client = connect(self.redis)
        name, lease = self._arguments()
        return client.lock(name, lease=lease, reentrant=False)

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        """Acquire the lock, as the constructor says; say whether it is held.

        sleep             Not used.
        blocking          False tries once.
        blocking_timeout  Seconds to wait.
        token             The holder's name; any other acquire is refused all the same.

        Raises redis-py's ConnectionError and ResponseError; a ConnectionError with a cause of
        LockUnknown means that the lock may be held, by nobody who knows.
        """
        seconds, owner = self._patience(blocking, blocking_timeout, token)
        with self._asking():
            try:
                self.local.hold = self._lock().hold(seconds, owner=owner)
            except holdfast.LockTimeout:
                return False
        return True

    def release(self) -> None:
        """Release the lock. LockError if it is not held, LockNotOwnedError if it was lost."""
        hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
        self.local.hold = None
        with self._asking("Cannot release a lock that's no longer owned"):
            hold.release()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Make the lock last so many seconds longer, or so many from now."""
        hold = self._extensible("extend")
        with self._asking("Cannot extend a lock that's no longer owned"):
            hold.extend(additional_time, replace_ttl)
        return True

    def reacquire(self) -> Literal[True]:
        """Make the lock last its timeout again, counted from now."""
        hold = self._extensible("reacquire")
        with self._asking("Cannot reacquire a lock that's no longer owned"):
            hold.extend(self.timeout, True)
        return True

    def locked(self) -> bool:
        """Ask the server whether anybody holds it."""
        with self._asking():
            return self._lock().locked()

    def owned(self) -> bool:
        """Ask the server whether this object, or this thread through it, holds it."""
        hold = self._mine()
        try:
            if hold is not None:
                with self._asking():
                    hold.check()
        except LockNotOwnedError:
            return False
        return hold is not None

    def __enter__(self) -> Self:
        """Acquire; LockError if others kept it for the blocking_timeout."""
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
