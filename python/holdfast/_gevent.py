"""Whether this is the thread of gevent's hub, where a wait stops every greenlet."""

from __future__ import annotations

import os
import sys
import threading


def in_hub() -> bool:
    """Say so, of a program that gevent has patched: there the main thread has the hub."""
    monkey = sys.modules.get("gevent.monkey")
    return (
        monkey is not None
        and monkey.is_module_patched("threading")
        and threading.get_native_id() == os.getpid()
    )
