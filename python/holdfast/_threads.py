"""Warn of threads that end without the release() that is theirs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ._errors import LockError
from ._options import anchor

if TYPE_CHECKING:
    from . import _holdfast

_log = logging.getLogger("holdfast")


class Ending:
    """A value of one thread, which Python collects when the thread ends."""

    __slots__ = ("_anchor", "_client", "_core", "_owner", "_thread")

    def __init__(self, core: _holdfast.Core, client: _holdfast.Client, thread: str) -> None:
        """Watch the calling thread."""
        self._core = core
        self._client = client
        # An open lock keeps the client's memory after its close.
        self._anchor = core.hf_lock_open(client, b"holdfast", None, anchor)
        self._owner = core.hf_client_owner(client, "t", 0)
        self._thread = thread

    def __del__(self) -> None:
        """Look what the thread has left. It is ending: another thread does the rest."""
        try:
            name = self._core.hf_client_kept(self._client, self._owner)
            if name is not None:
                what = self._thread, name, self._owner
                threading.Thread(target=_warn, args=what, daemon=True).start()
        except (LockError, RuntimeError):
            pass  # the client is closed, or the interpreter ends


class Threads(threading.local):
    """What each thread that acquires is watched by."""

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
            self.ending = Ending(core, client, thread.name)


def _warn(thread: str, name: bytes, owner: bytes) -> None:
    lock, by = (each.decode("utf-8", "backslashreplace") for each in (name, owner))
    what = (
        f"thread {thread!r} ended while it held lock {lock!r}: if the hold is renewed, that goes"
        f" on until its max_hold; release(owner={by!r}), of the lock or of its shared(),"
        " releases it"
    )
    _log.warning("%s", what)
