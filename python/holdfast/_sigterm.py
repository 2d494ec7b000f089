"""Let SIGTERM end the program as an exception does, so that it gives its locks back."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_STATUS = 128 + signal.SIGTERM  # as shells report a program that the signal ended


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(_STATUS)


def check_main_thread() -> None:
    """Refuse any other thread: Python sets no signal handler there."""
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(
            "sigterm=True sets a signal handler, which Python allows in the main thread only:"
            " connect there, or handle SIGTERM yourself"
        )


def exit_on_sigterm() -> None:
    """Let SIGTERM raise SystemExit in the main thread, unless the program handles it itself."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit)


@contextlib.contextmanager
def exiting_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise SystemExit during a block, if it runs in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    exit_on_sigterm()
    try:
        yield
    finally:
        if before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, before)
