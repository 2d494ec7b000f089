"""Take a core client's completions, and hand each to its task or thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import itertools
import select
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from . import _holdfast, _log
from ._alarm import Alarm
from ._caller import real, start_thread
from ._errors import ClosedError, LockError
from ._options import anchor
from ._trouble import Trouble
from ._trouble import told as trouble_of

Told = TypeVar("Told")
Result = TypeVar("Result")

_ANSWERS = 5.0  # the least number of seconds for the answer to a release


class Call:
    """An operation under way, and the task that waits for it."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, taken: Callable[[], object] = lambda: None
    ) -> None:
        """Make the call in the loop of its task. It calls taken() when the task has the outcome."""
        self._loop = loop
        self.taken = taken
        self.ends = False  # whether it ends a hold, for which another caller may wait
        # The hold to release if the operation fails, because its task was cancelled.
        self.left: _holdfast.Hold | None = None
        self._thread = threading.get_ident()
        self._ended = loop.create_future()
        self.outcome: tuple[int, _holdfast.Hold | None] | None = None
        self.detail = 0  # the detail for error()
        self.message = "the client was closed"  # the error, if there is one

    def end(self, status: int, hold: _holdfast.Hold | None) -> None:
        """Set the outcome. Any thread may call this; raises RuntimeError if the loop is closed."""
        self.outcome = self.outcome or (status, hold)  # first: the loop may never run again
        if threading.get_ident() == self._thread and not self._loop.is_closed():
            self._wake()
        else:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    def lonely(self) -> bool:
        """Return whether the task's loop is closed."""
        return self._loop.is_closed()

    async def wait(self) -> tuple[int, _holdfast.Hold | None]:
        """Wait for the end of the operation."""
        while self.outcome is None:
            await self._ended
        self.taken()
        return self.outcome

    async def insist(
        self, within: float, ended: Callable[[], bool] = lambda: True
    ) -> tuple[int, _holdfast.Hold | None]:
        """Wait for the end of the operation, even if the task is cancelled meanwhile.

        within  The seconds to wait for its completion after its end: the completion may have been
                lost, because a signal handler raised where it was handed on.
        ended   Returns, now and after each cancellation, whether the operation has ended, or will
                within that time.
        """
        limit: asyncio.TimerHandle | None = None
        while self.outcome is None:
            if limit is None and ended():
                limit = self._loop.call_later(within, self.end, _holdfast.HF_ECANCELED, None)
            if self._ended.cancelled():
                self._ended = self._loop.create_future()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ended
        if limit is not None:
            limit.cancel()
        self.taken()
        return self.outcome


class Notices:
    """The completions of one core client.

    Every event loop that waits for completions watches the client's descriptor. So does one thread,
    which starts when code without a loop must notice a loss. The first to see a completion hands it
    on.
    """

    def __init__(
        self,
        core: _holdfast.Core,
        client: _holdfast.Client,
        alarmed: Callable[[Alarm], None],
        troubled: Callable[[Trouble], None] | None,
        connect_timeout: float = 0,
    ) -> None:
        """Begin to collect the completions."""
        self.core = core
        self.answers = max(_ANSWERS, connect_timeout + 1)
        self._alarmed = self.elsewhere(alarmed)
        self._troubled = None if troubled is None else self.elsewhere(troubled)
        self._client = client
        # An open lock keeps the descriptor, and lets hf_client_next() read after the close.
        self._anchor = self.core.hf_lock_open(client, b"holdfast", None, anchor)
        self._fd = self.core.hf_client_fd(client)
        self._numbers = itertools.count(1, _holdfast.HF_JOIN_MAX)  # several locks: one for each
        self._calls: dict[int, Call] = {}
        # Results with a hold that the task has not taken yet: its loop may be closed first.
        self._won: weakref.WeakValueDictionary[int, Call] = weakref.WeakValueDictionary()
        # Releases without a waiting caller, by the released object.
        self._later: dict[int, str] = {}
        self.unconfirmed = 0  # how many of those were not answered as expected
        self._watches: dict[int, tuple[Callable[[], bool], Callable[[], object]]] = {}
        self._crowded = 64
        self._changed = threading.Condition()
        self._waiting = 0
        self._sleepers: list[Call] = []
        self._starting = real("_thread", "allocate_lock")()
        self._listens = False
        self._listener = 0  # the id of its thread
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._closed = False

    # ------------------------------------------------------------- For tasks

    def attend(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the running loop watch for completions."""
        if loop not in self._loops:
            loop.add_reader(self._fd, self._read, loop)
            self._loops.add(loop)
            for number, call in list(self._calls.items()):
                if call.lonely():
                    self.abandon(number, call)
            for each in self._won.valuerefs():
                if (won := each()) is not None and won.lonely():
                    won.taken()
                    self.drop(won.outcome and won.outcome[1])

    def start(self, begin: Callable[[int], object]) -> tuple[int, Call]:
        """Start an operation for the running loop, by calling begin() with its number."""
        number, (call,) = self.start_several(1, begin)
        return number, call

    def start_several(
        self, count: int, begin: Callable[[int], object]
    ) -> tuple[int, tuple[Call, ...]]:
        """Start operations, which end together, by calling begin() with the number of the first."""
        loop = asyncio.get_running_loop()
        self.attend(loop)
        number = next(self._numbers)
        calls = {
            each: Call(loop, functools.partial(self._taken, each))
            for each in range(number, number + count)
        }
        self._calls.update(calls)
        try:
            begin(number)
        except BaseException:
            for each in calls:
                self._calls.pop(each, None)  # another thread may have seen the close
            raise
        if self._closed:
            for call in calls.values():
                call.end(_holdfast.HF_ECANCELED, None)
        return number, tuple(calls.values())

    def _taken(self, number: int) -> None:
        """Forget a result that its task has, even if the thread that hands it on has not yet."""
        self._won.pop(number, None)
        self._calls.pop(number, None)

    def release_later(self, handle: _holdfast.Hold, what: str) -> None:
        """Start a release without a waiting caller; a later call here reads its result."""
        number = next(self._numbers)
        self._later[number] = what
        try:
            self.core.hf_hold_release_start(handle, number)
        except BaseException:
            self._later.pop(number, None)
            raise
        if not self._closed:
            self._drain()  # only now: a signal handler may raise in it

    def finish(self) -> None:
        """Wait for the ends of such releases, as long as the answers may take."""
        ready = select.poll()
        ready.register(self._fd, select.POLLIN)
        until = time.monotonic() + self.answers
        while self._drain() and self._later and (left := until - time.monotonic()) > 0:
            ready.poll(min(left * 1000, 50))  # another thread may drain the completions

    def cancel(self, number: int) -> bool:
        """Cancel an acquire, whose completion still follows; return whether it has ended."""
        try:
            self.core.hf_op_cancel(self._client, number)
        except LockError:
            return True
        return False

    def forget(self, number: int) -> None:
        """Stop waiting for an acquire: a lock that it may still get is released."""
        self._calls.pop(number, None)

    def abandon(self, number: int, call: Call) -> None:
        """Cancel an acquire for which no task waits any longer, or release its lock."""
        self.cancel(number)
        self._calls.pop(number, None)
        self._won.pop(number, None)
        if call.outcome is not None:
            self.drop(call.outcome[1])

    def drop(self, hold: _holdfast.Hold | None) -> None:
        """Release a hold that no caller has, without waiting for the answer."""
        if hold is not None:
            with contextlib.suppress(LockError):
                self.core.hf_hold_release_start(hold, next(self._numbers))

    @functools.cached_property
    def _pool(self) -> concurrent.futures.ThreadPoolExecutor:
        return concurrent.futures.ThreadPoolExecutor(thread_name_prefix="holdfast")

    async def ask(self, call: Callable[..., Result], *about: Any) -> Result:
        """Ask the server in a client's thread: the loop's pool may wait for the task's lock."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *about)

    async def waited(self, over: Callable[[], bool]) -> None:
        """Wait until over() is true."""
        loop = asyncio.get_running_loop()
        self.attend(loop)
        while True:
            call = Call(loop)
            self._sleepers.append(call)
            try:
                if over() or self._closed:
                    return
                await call.wait()
            finally:
                with contextlib.suppress(ValueError):
                    self._sleepers.remove(call)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._drain():
            loop.remove_reader(self._fd)

    # ----------------------------------------------------------- For threads

    def watch(self, number: int, stands: Callable[[], bool], lost: Callable[[], object]) -> None:
        """Call lost() if the hold with this number is lost, in the first thread that notices it."""
        if len(self._watches) >= self._crowded:
            # Not every end is reported here: forget the holds that have ended.
            for old, (still, _) in list(self._watches.items()):
                if not still():
                    self._watches.pop(old, None)
            self._crowded = max(64, 2 * len(self._watches))
        self._watches[number] = stands, lost

    def unwatch(self, number: int) -> bool:
        """Forget the hold; return whether it was still watched."""
        return self._watches.pop(number, None) is not None

    def wait(self, over: Callable[[], bool], timeout: float | None) -> None:
        """Wait until over() is true, or the time is up."""
        self.listen()
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: over() or self._closed, timeout)
            finally:
                self._waiting -= 1

    def look(self) -> None:
        """Wake every wait(), so that it checks again."""
        if self._waiting:
            with self._changed:
                self._changed.notify_all()
        for call in list(self._sleepers):
            with contextlib.suppress(RuntimeError):  # its loop is closed
                call.end(_holdfast.HF_OK, None)  # waited() checks again

    def listen(self) -> None:
        """Start the thread that reports losses without an event loop."""
        mine = False
        try:  # a signal handler that runs as the thread starts may call this, too
            with self._starting:
                if self._listens or self._closed:
                    return
                self._listens = mine = True
            start_thread(self._listen, "holdfast-notices")
        except BaseException:
            if mine:
                self._listens = False  # the next call tries again
            raise

    def _listen(self) -> None:
        self._listener = threading.get_ident()
        told = real("select", "poll")()
        told.register(self._fd, select.POLLIN)
        while True:
            pause: int | None = None
            try:
                if not self._drain():
                    return
            except Exception:  # such as no memory for a Trouble: the next notice finds this thread
                _log.exception("a notice of the client was lost")
                pause = 100  # milliseconds
            told.poll(pause)

    def elsewhere(self, work: Callable[[Told], object]) -> Callable[[Told], None]:
        """Make a function that runs work() where it may take its time: not in an event loop."""

        def run(told: Told) -> None:
            if threading.get_ident() == self._listener:
                safely(work, told)
                return
            try:
                threading.Thread(target=safely, args=(work, told), daemon=True).start()
            except RuntimeError:  # no thread can be started: better here than not at all
                safely(work, told)

        return run

    # -------------------------------------------------------------- For both

    def _drain(self) -> bool:
        """Hand on all completions in the queue; return False when no more will follow."""
        told: list[Any] = [None, None]  # a completion, and the call that it ends
        try:
            while True:
                self.core.hf_client_next(self._client, told)
                if not self._hand_on(told):
                    return True
        except ClosedError:
            with self._starting:
                first, self._closed = not self._closed, True
            for op in [*self._later, *self._calls] if first else []:
                canceled = _holdfast.HF_ECANCELED, None, 0, "the client was closed"
                self._settle(op, self._calls.get(op), *canceled)
            self._watches.clear()
            self.look()
            return False
        except BaseException:  # such as from a signal handler: the core has no second copy
            if told[0] is not None:
                self._hand_on(told)
            raise

    def _hand_on(self, told: list[Any]) -> bool:
        """Hand on a completion, perhaps again, and clear it; return whether there was one."""
        kind, status, op, number, hold, detail, message, timeouts, name, holds, left = told[0]
        if kind == _holdfast.HF_KIND_LOSS:
            _, lost = self._watches.pop(number, (None, None))
            if lost is not None:
                lost()
            self.look()
        elif kind == _holdfast.HF_KIND_ALARM:
            alarm = Alarm(name.decode("utf-8", "surrogateescape"), timeouts, message)
            self._alarmed(alarm)
        elif kind in (_holdfast.HF_KIND_TROUBLE, _holdfast.HF_KIND_FAILOVER):
            trouble = trouble_of(kind, status, holds, left, message)
            if self._troubled is not None:
                self._troubled(trouble)
        elif kind != _holdfast.HF_KIND_NONE:
            told[1] = told[1] or self._calls.get(op)
            self._settle(op, told[1], status, hold, detail, message)
        told[0] = None
        told[1] = None
        return bool(kind != _holdfast.HF_KIND_NONE)

    def _settle(
        self,
        op: int,
        call: Call | None,
        status: int,
        hold: _holdfast.Hold | None,
        detail: int,
        message: str,
    ) -> None:
        what = self._later.get(op)
        if what is not None:
            if status != _holdfast.HF_OK:
                self.unconfirmed += 1
                _log.warning("%s was released, but not as expected: %s", what, message)
            self._later.pop(op, None)  # last: finish() in another thread waits for the log
            return
        try:
            if call is None:
                raise RuntimeError("no task waits for it")
            if hold is not None and call.outcome is None:  # else its task may have it
                self._won[op] = call
            call.detail = detail
            call.message = message
            call.end(status, hold)
            if call.outcome is not None and call.outcome[1] is not hold:
                self.drop(hold)  # the hold arrived too late
        except RuntimeError:  # no task waits, or its loop is closed
            self.drop(hold)
        self._calls.pop(op, None)  # last: after an exception above, all of this is repeated
        if call is not None and call.ends:
            self.give_up_left(call)
            self.look()

    def leave(self, call: Call, hold: _holdfast.Hold) -> None:
        """Let the operation go on without its task; if it fails, release the hold."""
        call.left = hold
        self.give_up_left(call)

    def give_up_left(self, call: Call) -> None:
        """Release the hold of an operation that has failed without its task."""
        if call.outcome is not None and call.outcome[0] != _holdfast.HF_OK:
            self.drop(call.left)


def safely(work: Callable[[Told], object], told: Told) -> None:
    """Run a user's function, and log its failure."""
    try:
        work(told)
    except BaseException:  # even sys.exit() would end only this thread
        _log.exception("the function that was called with %r failed", told)
