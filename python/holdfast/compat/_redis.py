"""The common parts of both redis-py interfaces: the client beside redis-py's, and BaseLock."""

from __future__ import annotations

import ssl
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import holdfast

from .. import _log

try:
    from redis.exceptions import AuthenticationError, LockError, LockNotOwnedError, ResponseError
    from redis.exceptions import ConnectionError as ConnectError
except ImportError:  # a fork of redis-py
    from holdfast import (  # type: ignore[assignment]
        AuthenticationError,
        ConnectError,
        LockError,
        LockNotOwnedError,
    )
    from holdfast import ServerError as ResponseError  # type: ignore[assignment]

__all__ = ["BaseLock", "LockError", "LockNotOwnedError", "connect", "known"]

AnyHold = TypeVar("AnyHold", holdfast.Hold, holdfast.AsyncHold)

# The exceptions that redis-py would have raised.
_ERRORS: dict[type[holdfast.LockError], type[Exception]] = {
    holdfast.LockNotOwnedError: LockNotOwnedError,
    holdfast.AuthenticationError: AuthenticationError,
    holdfast.ConnectError: ConnectError,
    holdfast.LockUnknown: ConnectError,
    holdfast.ServerError: ResponseError,
}

# ------------------------------------------------------- The client beside theirs

_clients: weakref.WeakKeyDictionary[Any, holdfast.Client] = weakref.WeakKeyDictionary()


def _pool(redis: Any) -> Any:
    pool = getattr(redis, "connection_pool", None)
    if pool is None:
        raise holdfast.UnsupportedError(
            f"{type(redis).__name__} is not a client of one server: for Redis Cluster use the "
            "locks of holdfast.connect('redis+cluster://...')"
        )
    return pool


def known(redis: Any) -> holdfast.Client | None:
    """Return the client of connect() if it is already open. Sends nothing."""
    return _clients.get(_pool(redis))


def connect(redis: Any) -> holdfast.Client:
    """Return the holdfast.Client for a redis-py client, one for each connection pool.

    It connects as redis-py does: over TCP, TLS or a unix socket, or to the master that the
    sentinels name. It closes when the pool is collected; do not close it. Opening it blocks.

    Raises UnsupportedError for Redis Cluster, for replicas, and for settings of TLS and Sentinel
    that Holdfast lacks, which the message names; otherwise as holdfast.connect().
    """
    pool = _pool(redis)
    if pool not in _clients:
        opened = _open(pool)
        if _clients.setdefault(pool, opened) is opened:
            # This releases nothing: a pool may be collected while a caller still relies on a lock.
            weakref.finalize(pool, opened._abandon)
        else:  # another thread was first
            opened.close()
    return _clients[pool]


def _open(pool: Any) -> holdfast.Client:
    settings: dict[str, Any] = pool.connection_kwargs
    options: dict[str, object] = _tls(settings) if _is_tls(pool) else {}
    scheme = "rediss" if _is_tls(pool) else "redis"
    login, database = _login(settings), settings.get("db") or 0
    if hasattr(pool, "sentinel_manager"):
        where = f"{_sentinels(pool)}/{quote(pool.service_name, '')}/{database}"
        scheme += "+sentinel"
    elif settings.get("path") is not None:
        scheme, where = "unix", quote(settings["path"])
        options["db"] = database
    elif settings.get("host") is not None:
        where = f"{_host(settings, 6379)}/{database}"
    else:
        raise holdfast.UnsupportedError(f"a {type(pool).__name__} has no address")
    url = f"{scheme}://{login}{where}" + (f"?{urlencode(options, quote_via=quote)}" * bool(options))
    timeouts = {
        "connect_timeout": settings.get("socket_connect_timeout"),
        "command_timeout": settings.get("socket_timeout"),
    }
    given = {name: value for name, value in timeouts.items() if value}
    # As with redis-py, a lock with a timeout may outlive its process.
    return holdfast.connect(url, close_at_exit=False, **given)


def _is_tls(pool: Any) -> bool:
    return any("SSL" in each.__name__ for each in pool.connection_class.__mro__)


def _credentials(settings: dict[str, Any]) -> tuple[str | None, str | None]:
    user, password = settings.get("username"), settings.get("password")
    if settings.get("credential_provider") is not None:
        *users, password = settings["credential_provider"].get_credentials()
        user = users[0] if users else None
    return user, password


def _login(settings: dict[str, Any]) -> str:
    user, password = _credentials(settings)
    return "" if password is None else f"{quote(user or '', '')}:{quote(password, '')}@"


def _host(settings: dict[str, Any], port: int) -> str:
    host = settings["host"]
    host = f"[{host}]" if ":" in host else quote(host)
    return f"{host}:{settings.get('port') or port}"


# The settings that only redis-py has, and the alternatives.
_NOT_KEPT = {
    "ssl_ca_data": "write it to a file, and give ssl_ca_certs",
    "ssl_password": "keep the key unencrypted, in a file that no other user may read",
    "ssl_ciphers": "the system's settings of OpenSSL apply",
    "ssl_include_verify_flags": "the system's settings of OpenSSL apply",
    "ssl_exclude_verify_flags": "the system's settings of OpenSSL apply",
    "ssl_validate_ocsp": "Holdfast does not use OCSP",
    "ssl_validate_ocsp_stapled": "Holdfast does not use OCSP",
    "ssl_ocsp_context": "Holdfast does not use OCSP",
    "ssl_ocsp_expected_cert": "Holdfast does not use OCSP",
}


def _tls(settings: dict[str, Any]) -> dict[str, object]:
    """Return the same settings as URL options; all checks of redis-py are kept."""
    for name, why in _NOT_KEPT.items():
        if settings.get(name):
            raise holdfast.UnsupportedError(f"{name} is not supported: {why}")
    if (settings.get("ssl_min_version") or 0) > ssl.TLSVersion.TLSv1_2:
        raise holdfast.UnsupportedError("ssl_min_version above TLS 1.2 is not supported")
    wanted = settings.get("ssl_cert_reqs", "required")
    if wanted in (None, "none", ssl.CERT_NONE):
        options: dict[str, object] = {"tls_verify": "off"}
    elif not settings.get("ssl_check_hostname", True):
        raise holdfast.UnsupportedError(
            "ssl_check_hostname=False is not supported with ssl_cert_reqs='required': "
            "Holdfast checks the certificate's name too"
        )
    elif settings.get("ssl_ca_certs") and settings.get("ssl_ca_path"):
        raise holdfast.UnsupportedError("ssl_ca_certs and ssl_ca_path: only one is supported")
    else:
        trusted = settings.get("ssl_ca_certs") or settings.get("ssl_ca_path")
        options = {"tls_ca": trusted} if trusted else {}
    if certificate := settings.get("ssl_certfile"):
        options["tls_cert"] = certificate
        if key := settings.get("ssl_keyfile"):
            options["tls_key"] = key
    return options


def _sentinels(pool: Any) -> str:
    if not pool.is_master:
        raise holdfast.UnsupportedError("slave_for() gives a replica: use master_for() for a lock")
    places = []
    for sentinel in pool.sentinel_manager.sentinels:
        theirs = sentinel.connection_pool
        settings = theirs.connection_kwargs
        if _is_tls(theirs) != _is_tls(pool) or (
            _is_tls(pool) and _tls(settings) != _tls(pool.connection_kwargs)
        ):
            raise holdfast.UnsupportedError(
                "sentinels and servers with different TLS settings are not supported: "
                "give sentinel_kwargs the same settings"
            )
        asked = _credentials(settings)
        if asked[1] is not None and asked != _credentials(pool.connection_kwargs):
            raise holdfast.UnsupportedError(
                "sentinels with a different password are not supported: "
                "Holdfast asks them without a password, or with the servers' password"
            )
        places.append(_host(settings, 26379))
    return ",".join(places)


# ------------------------------------------------------------------------- Locks


class BaseLock(Generic[AnyHold]):
    """The parts of a lock that send nothing."""

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
        """Make a lock. Sends nothing.

        redis             The redis-py client, whose server, user and database the lock uses.
        name              The key, encoded by that client's encoder.
        timeout           Seconds after which a hold ends; None: renewed until released.
        sleep             Not used.
        blocking          Whether acquire() waits by default.
        blocking_timeout  How many seconds; None: without limit.
        thread_local      Whether a thread may release only holds that it acquired itself.
        raise_on_release_error  Leaving a `with` block raises if the lock was lost; False: it
                          logs a warning.
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

    def _arguments(self) -> tuple[bytes, holdfast.LockOptions]:
        """Return the name, and the options."""
        name = self.redis.get_encoder().encode(self.name)
        # Every acquire has a new owner, as each acquire of redis-py has a new token.
        if not self.timeout:
            return name, holdfast.LockOptions(reentrant=False)
        return name, holdfast.LockOptions(lease=self.timeout, renew=False, reentrant=False)

    def _patience(
        self, blocking: bool | None, blocking_timeout: float | None, token: str | bytes | None
    ) -> tuple[float | None, bytes | None]:
        """Return the seconds to wait, and the owner."""
        blocking = self.blocking if blocking is None else blocking
        seconds = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not blocking:
            seconds = 0
        elif seconds is not None:
            seconds = max(0, seconds)
        return seconds, None if token is None else self.redis.get_encoder().encode(token)

    @contextmanager
    def _asking(self, failed: str = "") -> Iterator[None]:
        """Convert exceptions to redis-py's; `failed` is the message of a LockNotOwnedError."""
        try:
            yield
        except holdfast.UnsupportedError:  # redis-py has no such exception
            raise
        except holdfast.LockError as error:
            kind = next(
                (_ERRORS[each] for each in type(error).__mro__ if each in _ERRORS), LockError
            )
            message = failed if kind is LockNotOwnedError and failed else str(error)
            raise self._error(kind, message) from error

    def _error(self, kind: type[Exception], message: str) -> Exception:
        error = kind(message)
        if isinstance(error, LockError):
            error.lock_name = self.name  # type: ignore[assignment]
        return error

    def _mine(self) -> AnyHold | None:
        """Return this object's hold, or with thread_local this thread's."""
        hold: AnyHold | None = getattr(self.local, "hold", None)
        return hold

    def _held(self, failed: str) -> AnyHold:
        hold = self._mine()
        if hold is None:
            raise self._error(LockError, failed)
        return hold

    def _extensible(self, verb: str) -> AnyHold:
        hold = self._held(f"Cannot {verb} an unlocked lock")
        if self.timeout is None:
            raise self._error(LockError, f"Cannot {verb} a lock with no timeout")
        return hold

    def _excuse(self) -> None:
        """Raise the LockError that ended a `with` block, or log it."""
        if self.raise_on_release_error:
            raise
        _log.warning("%r was lost, or released, before the block ended", self.name)
