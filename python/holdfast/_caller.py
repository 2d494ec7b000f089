"""The owner of an acquire: the rule of docs/guarantees.md, "Who is the owner"."""

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
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ._holdfast import Hold

_serials = itertools.count(1)
_numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()


def caller(tasks: bool) -> object | None:
    """Return the caller that owns an acquire without an owner; None: the calling thread.

    tasks  The acquire is awaited, and belongs to the task. Otherwise it belongs to the greenlet or
           the job of a thread pool, if the thread runs either, or else to the thread.

    An acquire may nest only in a hold of the same owner, so callers that may run beside or after
    each other on one thread must be different owners.
    """
    if tasks:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no running task")
        return task
    return _greenlet() or _job()


def serial(owner: object) -> int:
    """Return the number by which the servers know an owner of caller()."""
    number = _numbers.get(owner)
    return _numbers.setdefault(owner, next(_serials)) if number is None else number


def ended(owner: object | None) -> bool:
    """Return whether the owner, from a weak reference, can make no more calls."""
    done = getattr(getattr(owner, "future", owner), "done", None)
    return owner is None or (done() if done is not None else bool(getattr(owner, "dead", False)))


_At = tuple[int, object, int]  # a frame, and the number of blocks that it had already entered


class _Block(NamedTuple):
    """A `with` block of a lock."""

    caller: bytes | int  # the caller that entered: the owner, or the thread
    by: weakref.ref[object] | None  # the task, greenlet or job
    holds: list[Hold | None]  # None: a hold that was kept or handed over


class Inside:
    """The `with` blocks of one lock, and the holds with which they were entered.

    The frame that entered a block leaves it, even the frame of a generator, which another job or
    task may continue: so FastAPI runs a plain dependency that yields, and asyncio ends a dropped
    generator. An ExitStack and a Condition enter in one frame and leave in another: for them a
    block is the newest of its caller.
    """

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        """Begin without a caller inside."""
        self._blocks: dict[_At, _Block] = {}

    def enter(self, by: object | None, owner: bytes | None, holds: list[Hold | None]) -> None:
        """Note that a block was entered."""
        block = _Block(_caller(owner), None if by is None else weakref.ref(by), holds)
        frame, depth = _frame(), 0
        while self._blocks.setdefault((*frame, depth), block) is not block:
            depth += 1

    def leave(self, owner: bytes | None, got: list[Hold | None], anyones: bool) -> bytes | None:
        """Put the holds of the block that ends into a list, and return the owner that entered it.

        anyones  A caller that entered no block may leave the block of another.
        """
        frame, depth = _frame(), 0
        while (*frame, depth) in self._blocks:
            depth += 1
        at = (*frame, depth - 1) if depth else self._find(_caller(owner), anyones)
        block = None if at is None else self._blocks.get(at)
        if at is None or block is None:
            return owner
        got += block.holds  # first, or a signal handler that raises would leave them held
        self._blocks.pop(at, None)
        return block.caller if isinstance(block.caller, bytes) else None

    def _find(self, me: bytes | int, anyones: bool) -> _At | None:
        """Find the newest block of the caller, or of a caller that has ended, or of any caller."""
        left = others = None
        for at, block in list(self._blocks.items())[::-1]:
            if block.caller == me:
                return at
            if left is None and block.by is not None and ended(block.by()):
                left = at
            others = others or at
        return left or (others if anyones else None)


_OURS = {f"holdfast.{each}" for each in ("_aio", "_lock", "_several", "_spans")}


def _caller(owner: bytes | None) -> bytes | int:
    return threading.get_ident() if owner is None else owner


def _frame() -> tuple[int, object]:
    """Return an identity of the frame that enters or leaves a block; it lives as long as the block.

    The function is a part of it: the next frame may be at the same address.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in _OURS:
        frame = frame.f_back
    return id(frame), frame and frame.f_code


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
    # A thread of gevent's pool runs all its jobs in one greenlet.
    main = greenlet.getcurrent().parent is None or type(current).__name__ == "_WorkerGreenlet"
    return None if main else current


def in_hub() -> bool:
    """Return whether this is the thread of gevent's hub, where a wait stops all greenlets."""
    return _patched() is not None and threading.get_native_id() == os.getpid()


def _patched() -> Any:
    """Return the module of gevent that has replaced threads by greenlets; None: it has not."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey if monkey is not None and monkey.is_module_patched("threading") else None


def real(module: str, name: str) -> Any:
    """Return what the module had under that name before gevent replaced it."""
    monkey = _patched()
    if monkey is None:
        return getattr(importlib.import_module(module), name)
    return monkey.get_original(module, name)


def start_thread(work: Callable[[], object], name: str) -> None:
    """Start a thread, even under gevent, whose greenlets run only where a hub does."""
    if _patched() is None:
        threading.Thread(target=work, name=name, daemon=True).start()
    else:
        real("_thread", "start_new_thread")(work, ())


# --------------------------------------------------------- Jobs of thread pools

# The function that a pool calls once for each job, and its variable that lives as long as the job;
# if there is none, a mark is put into the frame.
_POOLS: dict[tuple[str, str], str | None] = {
    ("concurrent.futures.thread", "run"): "self",
    ("anyio._backends._asyncio", "run"): "future",
    ("gevent.threadpool", "__run_task"): None,
    ("trio._core._thread_cache", "_handle_job"): None,
}
_NAMES = {name for _, name in _POOLS}
_MACHINERY = {module for module, _ in _POOLS} | {"asgiref.sync", "trio._threads"}
_MARK = " holdfast"
_CONTEXT = "WorkerContext.run"  # through which Python 3.14 runs all jobs of a thread


class _Mark:
    """Represents a job."""


class _Kind(threading.local):
    """Whether the calling thread belongs to a pool, as far as is known."""

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
        known.clear()  # before Python 3.13 this is a copy, which would keep the job alive
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
