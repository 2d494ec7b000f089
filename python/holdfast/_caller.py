"""Whose an acquire is: the rule of docs/guarantees.md, "Who is the owner"."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_serials = itertools.count(1)
_numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()


def caller(tasks: bool) -> object | None:
    """Give what an acquire without an owner belongs to; None: the calling thread.

    tasks  The acquire is awaited, and belongs to the task. Otherwise it belongs to the greenlet, or
           to the job of a thread pool, if the thread runs either, and then to the thread.

    An acquire may nest only in a hold of the same owner, so whatever may run beside or after each
    other on one thread must be a different owner.
    """
    if tasks:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no running task")
        return task
    return _greenlet() or _job()


def serial(owner: object) -> int:
    """Give the number by which the servers know an owner of caller()."""
    number = _numbers.get(owner)
    return _numbers.setdefault(owner, next(_serials)) if number is None else number


def ended(owner: object | None) -> bool:
    """Say whether that owner, of a weak reference, can call no more."""
    done = getattr(getattr(owner, "future", owner), "done", None)
    return owner is None or (done() if done is not None else bool(getattr(owner, "dead", False)))


class Inside:
    """The owners in the `with` blocks of one lock: threads, greenlets, jobs and tasks that entered.

    A generator's block may be left by another job than it was entered by: so FastAPI runs a plain
    dependency that yields. asyncio ends a generator that was dropped in a task of its own.
    """

    __slots__ = ("_entered", "_threads")

    def __init__(self) -> None:
        """Begin without a caller inside."""
        self._entered: dict[bytes, list[tuple[weakref.ref[object], int]]] = {}
        self._threads: dict[int, int] = {}  # how many blocks

    def enter(self, by: object | None, owner: bytes | None) -> None:
        """Note that a block was entered."""
        if by is not None and owner is not None:
            self._entered.setdefault(owner, []).append((weakref.ref(by), _block()))
        else:
            here = threading.get_ident()
            self._threads[here] = self._threads.get(here, 0) + 1

    def leave(self, owner: bytes | None) -> bytes | None:
        """Give the owner whose block ends: the caller's, or who entered here, or an ended one."""
        if owner is None:
            here = threading.get_ident()
            blocks = self._threads.pop(here, 0)
            if blocks > 1:
                self._threads[here] = blocks - 1
            if blocks > 0:
                return owner
        if not self._entered:
            return owner
        if owner not in self._entered:
            here = _block()
            others = {
                at[-1][1]: each
                for each, at in list(self._entered.items())
                if at[-1][1] == here or ended(at[-1][0]())
            }
            owner = others.get(here, next(iter(others.values()), owner))
        entered = self._entered.get(owner or b"", [])
        if len(entered) <= 1:
            self._entered.pop(owner or b"", None)
        else:
            entered.pop()
        return owner


def _block() -> int:
    """Give the frame that entered and leaves a block: that of a generator lives until it ends."""
    frame: FrameType | None = sys._getframe(3)  # above Inside, and __enter__() or __exit__()
    while frame is not None and frame.f_globals.get("__name__") == "holdfast._spans":
        frame = frame.f_back
    return id(frame)


# --------------------------------------------------------------- Event loops


def refuse_in_loop(what: str) -> None:
    """Refuse a blocking acquire where it would stop an event loop."""
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            f"{what}: this thread runs an event loop, which a blocking acquire would stop. Use"
            " client.aio, as in `async with client.aio.lock(name):`, or run the blocking code in"
            " a thread: `await asyncio.to_thread(function)`"
        )
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        raise RuntimeError(
            f"{what}: this thread runs an event loop, which a blocking acquire would stop. Run the"
            " blocking code in a thread: `await trio.to_thread.run_sync(function)`"
        )


# ----------------------------------------------------------------- Greenlets


def _greenlet() -> object | None:
    greenlet = sys.modules.get("greenlet")
    if greenlet is None:
        return None
    current: object = greenlet.getcurrent()
    # A thread of gevent's pool runs all of its jobs in one greenlet.
    main = greenlet.getcurrent().parent is None or type(current).__name__ == "_WorkerGreenlet"
    return None if main else current


def in_hub() -> bool:
    """Say whether this is the thread of gevent's hub, where a wait stops every greenlet."""
    return _patched() is not None and threading.get_native_id() == os.getpid()


def _patched() -> Any:
    """Give gevent's module that has replaced threads by greenlets, if it has."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None


def real(module: str, name: str) -> Any:
    """Give what the module had under that name before gevent replaced it."""
    monkey = _patched()
    if monkey is None:
        return getattr(importlib.import_module(module), name)
    return monkey.get_original(module, name)


def start_thread(work: Callable[[], object], name: str) -> None:
    """Start a thread, also under gevent, whose greenlets run only where a hub does."""
    if _patched() is None:
        threading.Thread(target=work, name=name, daemon=True).start()
    else:
        real("_thread", "start_new_thread")(work, ())


# --------------------------------------------------------- Jobs of thread pools

# The function that a pool calls once for each job, and its variable that lives as long as the job;
# without one, a mark is put there.
_POOLS: dict[tuple[str, str], str | None] = {
    ("concurrent.futures.thread", "run"): "self",
    ("anyio._backends._asyncio", "run"): "future",
    ("gevent.threadpool", "__run_task"): None,
    ("trio._core._thread_cache", "_handle_job"): None,
}
_NAMES = {name for _, name in _POOLS}
_MACHINERY = {module for module, _ in _POOLS} | {"asgiref.sync", "trio._threads"}
_MARK = " holdfast"
_CONTEXT = "WorkerContext.run"  # by which Python 3.14 runs all jobs of a thread


class _Mark:
    """Stands for a job."""


class _Kind(threading.local):
    """What is known of the calling thread."""

    pooled: bool | None = None


_kind = _Kind()


def _job() -> object | None:
    if _kind.pooled is None:
        _kind.pooled = any(each.f_globals.get("__name__") in _MACHINERY for each in _stack())
    found = _frame_of_job() if _kind.pooled else None
    if found is None:
        return None
    frame, variable = found
    known = frame.f_locals
    job: object | None = known.get(variable) if variable else known.setdefault(_MARK, _Mark())
    if type(known) is dict:
        known.clear()  # before Python 3.13 it is a copy, which would keep the job alive
        if variable is None:
            known[_MARK] = job
    return job


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _frame_of_job() -> tuple[FrameType, str | None] | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_name
        if name in _NAMES:
            place = frame.f_globals.get("__name__", ""), name
            if place in _POOLS and getattr(frame.f_code, "co_qualname", "") != _CONTEXT:
                return frame, _POOLS[place]
        frame = frame.f_back
    return None


def refuse_as_job(what: str, frame: FrameType | None) -> None:
    """Refuse an acquire() that is a whole job or greenlet: its owner would end with it."""
    alone = frame is None or frame.f_globals.get("__name__") in _MACHINERY
    if alone and caller(tasks=False) is not None:
        raise RuntimeError(
            f"{what}: this acquire() is a whole job of a thread pool, or a whole greenlet. Its"
            " owner ends with it, and no other may release the lock. Use lock.hold(), whose"
            " release() any thread may call, or `async with client.aio.lock(name):`"
        )
