"""Warn of threads, greenlets and jobs that end without their own release()."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from . import _log
from ._errors import LockError
from ._options import anchor

if TYPE_CHECKING:
    from . import _holdfast


class Ending:
    """A value that Python collects when the thread ends, or the job."""

    __slots__ = ("_anchor", "_core", "_owner", "_what", "client")

    def __init__(
        self, core: _holdfast.Core, client: _holdfast.Client, owner: bytes, what: str
    ) -> None:
        """Watch the owner, described by `what`."""
        self._core = core
        self.client = client
        # An open lock keeps the client's memory after its close.
        self._anchor = core.hf_lock_open(client, b"holdfast", None, anchor)
        self._owner = owner
        self._what = what

    def __del__(self) -> None:
        """Find the owner's leftover holds. Its thread may be ending: another thread warns."""
        try:
            name = self._core.hf_client_kept(self.client, self._owner)
            if name is not None:
                what = self._what, name, self._owner
                threading.Thread(target=_warn, args=what, daemon=True).start()
        except (LockError, RuntimeError):
            pass  # the client is closed, or the interpreter is ending


class Threads(threading.local):
    """The value by which each acquiring thread is watched."""

    ending: Ending | None = None
    watched: _holdfast.Client | None = None

    def watch(self, core: _holdfast.Core, client: _holdfast.Client) -> None:
        """Watch the calling thread, if Python started it; the main thread ends with the process."""
        self.watched = client
        thread = threading.current_thread()
        if thread is not threading.main_thread() and not isinstance(
            thread,
            threading._DummyThread,
        ):
            owner = core.hf_client_owner(client, "t", 0)
            self.ending = Ending(core, client, owner, f"thread {thread.name!r}")


_endings: weakref.WeakKeyDictionary[object, list[Ending]] = weakref.WeakKeyDictionary()


def watch(by: object, core: _holdfast.Core, client: _holdfast.Client, owner: bytes) -> None:
    """Watch a greenlet, or a job of a thread pool."""
    watched = _endings.setdefault(by, [])
    if not any(each.client is client for each in watched):
        what = f"a job or greenlet of thread {threading.current_thread().name!r}"
        watched.append(Ending(core, client, owner, what))


def _warn(who: str, name: bytes, owner: bytes) -> None:
    lock, by = (each.decode("utf-8", "backslashreplace") for each in (name, owner))
    what = (
        f"{who} ended while it held lock {lock!r}: if the hold is renewed, that goes"
        f" on until its max_hold; release(owner={by!r}), of the lock or of its shared(),"
        " releases it"
    )
    _log.warning("%s", what)
