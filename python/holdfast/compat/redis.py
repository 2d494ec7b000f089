"""redis-py's Lock, on Holdfast: a code base moves over in one line.

lock = redis.lock("stock", timeout=10, lock_class=holdfast.compat.redis.Lock)

The lock is where the redis.Redis client is: one holdfast.Client for each connection pool, opened
at the first use with the pool's address, user, password and timeouts. Also for a fork of redis-py
that has kept its shape.

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
- TLS, Sentinel and Cluster: UnsupportedError at the first use.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote

import holdfast

if TYPE_CHECKING:
    from typing_extensions import Self

try:
    from redis.exceptions import AuthenticationError, LockError, LockNotOwnedError, ResponseError
    from redis.exceptions import ConnectionError as ConnectError
except ImportError:  # it is a fork's client
    from holdfast import (  # type: ignore[assignment]
        AuthenticationError,
        ConnectError,
        LockError,
        LockNotOwnedError,
    )
    from holdfast import ServerError as ResponseError  # type: ignore[assignment]

__all__ = ["Lock", "LockError", "LockNotOwnedError", "connect"]

Result = TypeVar("Result")

_log = logging.getLogger("holdfast")

# What redis-py would have raised.
_ERRORS: dict[type[holdfast.LockError], type[Exception]] = {
    holdfast.LockNotOwnedError: LockNotOwnedError,
    holdfast.AuthenticationError: AuthenticationError,
    holdfast.ConnectError: ConnectError,
    holdfast.LockUnknown: ConnectError,
    holdfast.ServerError: ResponseError,
}

_clients: weakref.WeakKeyDictionary[Any, holdfast.Client] = weakref.WeakKeyDictionary()


def connect(redis: Any) -> holdfast.Client:
    """Give the one holdfast.Client beside a redis.Redis client, or all that share its pool.

    It is closed when the pool is collected; do not close it. Raises UnsupportedError for TLS,
    Sentinel and Cluster, and what holdfast.connect() raises.
    """
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise holdfast.UnsupportedError(
            f"{type(redis).__name__} is no client of one server: Cluster is not supported yet"
        )
    if pool not in _clients:
        opened = _open(pool)
        if _clients.setdefault(pool, opened) is opened:
            # Releases nothing: a pool may go while somebody still relies on a lock.
            weakref.finalize(pool, opened._abandon)
        else:  # another thread was first
            opened.close()
    return _clients[pool]


def _open(pool: Any) -> holdfast.Client:
    known: dict[str, Any] = pool.connection_kwargs
    if any("SSL" in each.__name__ for each in pool.connection_class.__mro__):
        raise holdfast.UnsupportedError("TLS is not supported yet")
    if known.get("path") is None and known.get("host") is None:
        raise holdfast.UnsupportedError(
            f"a {type(pool).__name__} has no address: Sentinel is not supported yet"
        )
    user, password = known.get("username"), known.get("password")
    if known.get("credential_provider") is not None:
        *users, password = known["credential_provider"].get_credentials()
        user = users[0] if users else None
    login = "" if password is None else f"{quote(user or '', '')}:{quote(password, '')}@"
    database = known.get("db") or 0
    if known.get("path") is not None:
        url = f"unix://{login}{quote(known['path'])}?db={database}"
    else:
        host = known["host"]
        host = f"[{host}]" if ":" in host else host
        url = f"redis://{login}{host}:{known.get('port') or 6379}/{database}"
    timeouts = {
        "connect_timeout": known.get("socket_connect_timeout"),
        "command_timeout": known.get("socket_timeout"),
    }
    return holdfast.connect(url, **{name: value for name, value in timeouts.items() if value})


class Lock:
    """redis.lock.Lock with the same constructor and methods; what differs, the module says."""

    def __init__(
        self,
        redis: Any,
        name: str | bytes,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        """Make a lock. Asks nobody.

        redis             The redis.Redis client whose server, user and database are used.
        name              The key, encoded as the client would.
        timeout           Seconds after which a hold ends; None: renewed until released.
        sleep             Not used.
        blocking          Does acquire() wait, unless told otherwise?
        blocking_timeout  For how many seconds; None: without limit.
        thread_local      Does a thread release only what it acquired itself?
        raise_on_release_error  Leaving a `with` block raises if the lock was lost; False: it is
                          logged.
        """
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()

    def _lock(self) -> holdfast.Lock:
        # Every acquire is for itself, as every one of redis-py's has a token of its own.
        return connect(self.redis).lock(
            self.redis.get_encoder().encode(self.name),
            lease=self.timeout or ...,
            reentrant=False,
        )

    def _ask(self, work: Callable[[], Result], failed: str = "") -> Result:
        """Do it, and raise as redis-py does."""
        try:
            return work()
        except holdfast.LockError as error:
            kind = next(
                (_ERRORS[each] for each in type(error).__mro__ if each in _ERRORS), LockError
            )
            raise self._error(kind, failed or str(error)) from error

    def _error(self, kind: type[Exception], message: str) -> Exception:
        error = kind(message)
        if isinstance(error, LockError):
            error.lock_name = self.name  # type: ignore[assignment]
        return error

    def _held(self, failed: str) -> holdfast.Hold:
        hold: holdfast.Hold | None = getattr(self.local, "hold", None)
        if hold is None:
            raise self._error(LockError, failed)
        return hold

    def _extend(self, seconds: float | None, replace: bool, verb: str) -> Literal[True]:
        hold = self._held(f"Cannot {verb} an unlocked lock")
        if self.timeout is None:
            raise self._error(LockError, f"Cannot {verb} a lock with no timeout")
        failed = f"Cannot {verb} a lock that's no longer owned"
        self._ask(lambda: hold.extend(seconds, replace), failed)
        return True

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
        blocking = self.blocking if blocking is None else blocking
        seconds = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not blocking:
            seconds = 0
        elif seconds is not None:
            seconds = max(0, seconds)
        owner = None if token is None else self.redis.get_encoder().encode(token)

        def attempt() -> holdfast.Hold | None:
            try:
                return self._lock().hold(seconds, owner=owner)
            except holdfast.LockTimeout:
                return None

        hold = self._ask(attempt)
        if hold is not None:
            self.local.hold = hold
        return hold is not None

    def release(self) -> None:
        """Release the lock. LockError if it is not held, LockNotOwnedError if it was lost."""
        hold = self._held("Cannot release a lock that's not owned or is already unlocked.")
        self.local.hold = None
        self._ask(hold.release, "Cannot release a lock that's no longer owned")

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Make the lock last so many seconds longer, or so many from now."""
        return self._extend(additional_time, replace_ttl, "extend")

    def reacquire(self) -> Literal[True]:
        """Make the lock last its timeout again, counted from now."""
        return self._extend(self.timeout, True, "reacquire")

    def locked(self) -> bool:
        """Ask the server whether anybody holds it."""
        return self._ask(lambda: self._lock().locked())

    def owned(self) -> bool:
        """Ask the server whether this object, or this thread through it, holds it."""
        hold: holdfast.Hold | None = getattr(self.local, "hold", None)
        try:
            if hold is not None:
                self._ask(hold.check)
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
            if self.raise_on_release_error:
                raise
            _log.warning("%r was lost, or released, before the block ended", self.name)
