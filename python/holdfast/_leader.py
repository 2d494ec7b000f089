"""Leader election: one of all candidates leads, and is notified before another can lead."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import inspect
import random
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import timedelta
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, final

from . import _errors, _holdfast, _log
from ._aio import AsyncHold
from ._arguments import duration, function
from ._errors import ClosedError, LockError
from ._hold import Bound
from ._lock import full
from ._options import LockOptions

if TYPE_CHECKING:
    from ._client import Client

_AGAIN = 0.5  # seconds until the next try, if the server cannot be asked
_FIRST, _LONGEST = 0.1, 30.0  # seconds to wait after elected() raised


def backoff(failures: int) -> float:
    """Return the seconds that a candidate stands back after `failures` failed terms in a row."""
    return min(_LONGEST, _FIRST * 2.0 ** min(failures - 1, 20)) * random.uniform(0.5, 1)


def _contained(call: Callable[[], object]) -> object:
    """Call a function; convert the exceptions that asyncio gives no task, or that end its loop."""
    try:
        return call()
    except (StopIteration, GeneratorExit, KeyboardInterrupt, SystemExit) as raised:
        raise RuntimeError(f"it raised {type(raised).__name__}") from raised


async def _insist(work: Coroutine[Any, Any, None]) -> None:
    """Await the work to its end, and only then raise a cancellation."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def _withdraw(acquiring: asyncio.Task[AsyncHold]) -> None:
    """End a candidacy, which may just have won the lock."""

    async def end() -> None:
        acquiring.cancel()
        await asyncio.wait({acquiring})
        with contextlib.suppress(LockError, asyncio.CancelledError):
            await acquiring.result().release()

    await _insist(end())


_ASYNC = "use client.aio.leader(), whose run() is awaited"
Elected = Callable[[int], object]
Ended = Callable[[], object]
End = Literal["over", "lost", "failed"]


class BaseLeader(Bound):
    """A candidate for leadership."""

    def __init__(
        self,
        client: Client,
        name: str | bytes,
        elected: Elected,
        lost: Ended | None,
        resigned: Ended | None,
        margin: float | timedelta | None,
        options: LockOptions,
    ) -> None:
        """Only Client.leader() makes this object."""
        for what, each in (("elected", elected), ("lost", lost), ("resigned", resigned)):
            function(what, each, awaited=True)
        if elected is None:
            raise TypeError("elected must be a function, not None")
        if options.lease is None:
            raise ValueError("a leader needs a lease that ends: without one no other would lead")
        given = options.lease
        lease = _holdfast.HF_LEASE_DEFAULT
        if not isinstance(given, EllipsisType):
            lease = duration("lease", given)
        self._margin = lease / 4000
        if margin is not None:
            self._margin = duration("margin", margin, least=0, most=lease // 2) / 1000
        # The note by which `holdfast ls` shows the leader.
        note = f"leader election: {options.note}" if options.note else "leader election"
        # Each candidacy is its own owner, and a leader without trouble continues to lead. The lease
        # is the lease of the margin, and no shorter quarantine.
        options = dataclasses.replace(
            options, lease=lease / 1000, reentrant=False, renew=True, on_lost=None, note=note
        )
        self._lock = client.aio.lock(name, options)
        self._elected, self._lost, self._resigned = elected, lost, resigned
        self._hold: AsyncHold | None = None
        self._stopping = False
        self._change = asyncio.Event()
        self._failures = 0  # of elected(), in a row

    @property
    def name(self) -> str | bytes:
        """The name, as given."""
        return self._lock.name

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads, by the clock of this moment. Sends nothing.

        After a pause of the process this is False before lost() can be called.
        """
        hold = self._hold
        return hold is not None and self._left(hold) > 0

    @property
    def fence(self) -> int | None:
        """The fence of this leadership, greater than all earlier ones; None: it does not lead."""
        hold = self._hold
        return hold.fence if hold is not None and self._left(hold) > 0 else None

    def _left(self, hold: AsyncHold) -> float:
        """Return the seconds until the leader must step down, if its lease is not renewed."""
        return (hold.remaining or 0.0) - self._margin

    async def _run(self) -> None:
        while not self._stopping:
            try:
                hold = await self._stand()
            except ClosedError:
                return
            except (LockError, MemoryError, OSError) as failed:  # such as no thread or descriptor
                _log.warning("the candidacy for %r goes on: %s", self.name, failed)
                await self._pause(_AGAIN)
                continue
            if hold is not None and not await self._serve(hold):
                pause = backoff(self._failures)
                _log.warning("the candidacy for %r pauses for %.1f s", self.name, pause)
                await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        if not self._stopping:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._change.wait(), seconds)

    async def _serve(self, hold: AsyncHold) -> bool:
        """Lead for one term; return whether it ended well."""
        began = time.monotonic()
        good = await self._lead(hold)
        if good or time.monotonic() - began >= _LONGEST:
            self._failures = 0
        self._failures += not good
        return good

    async def _stand(self) -> AsyncHold | None:
        """Stand as a candidate; return the hold, or None if it stops first."""
        acquiring = asyncio.create_task(self._acquire())
        stopped = asyncio.create_task(self._change.wait())
        try:
            await asyncio.wait({acquiring, stopped}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _withdraw(acquiring)
            raise
        finally:
            stopped.cancel()
        if self._stopping:
            await _withdraw(acquiring)
            return None
        return acquiring.result()

    async def _acquire(self) -> AsyncHold:
        # With less than its whole lease, the leader might have to step down within moments.
        return await self._lock._acquire(_holdfast.HF_FOREVER, None, full)

    async def _lead(self, hold: AsyncHold) -> bool:
        self._hold = hold
        work = asyncio.create_task(self._called("elected", lambda: self._begin(hold.fence)))
        end: End = "over"
        try:
            end = await self._watch(hold, work)
        finally:
            self._hold = None
            self._change.clear()
            await _insist(self._step_down(hold, work, end == "lost"))
        return end != "failed"

    async def _step_down(self, hold: AsyncHold, work: asyncio.Task[bool], lost: bool) -> None:
        """Notify the user, and release the lock only after the work: then another may lead."""
        what, over = ("lost", self._lost) if lost else ("resigned", self._resigned)
        if over is not None:
            await self._called(what, lambda: self._tell(over))
        await self._finish(work)
        with contextlib.suppress(LockError):
            await hold.release()

    async def _watch(self, hold: AsyncHold, work: asyncio.Task[bool]) -> End:
        """Wait for the end of the leadership, and return its kind."""
        lost = asyncio.create_task(hold.lost.wait())
        change = asyncio.create_task(self._change.wait())
        waits: set[asyncio.Task[Any]] = {lost, change, work}
        try:
            while (left := self._left(hold)) > 0:
                done, waits = await asyncio.wait(
                    waits, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
                if change in done:
                    return "over"
                if lost in done:  # or the client is closing: its hold is valid until then
                    return "lost"
                if work in done and not work.result():
                    return "failed"  # the work is not done: let another candidate lead
            return "lost"
        finally:
            for each in (lost, change):
                each.cancel()

    async def _called(self, what: str, call: Callable[[], Awaitable[object]]) -> bool:
        """Call a user's function, and log its failure."""
        try:
            await call()
        except asyncio.CancelledError:
            return False
        except Exception:
            _log.exception("%s() of the leader %r failed", what, self.name)
            return False
        return True

    async def _begin(self, fence: int) -> None:
        raise NotImplementedError

    async def _finish(self, work: asyncio.Task[bool]) -> None:
        raise NotImplementedError

    async def _tell(self, over: Ended) -> None:
        told = over()
        if inspect.isawaitable(told):
            await told

    def _resign(self) -> None:
        if self._hold is not None:
            self._change.set()

    def _stop(self) -> None:
        self._stopping = True
        self._change.set()

    def __repr__(self) -> str:
        """Show whether it leads. Sends nothing."""
        what = "leading" if self.is_leader else "not leading"
        return f"<{what} holdfast.{type(self).__name__} object name={self.name!r}>"


@final
class AsyncLeader(BaseLeader):
    """A candidate in an event loop; AsyncClient.leader() makes it.

    elected(fence) runs as a task, which is cancelled when the leadership ends; the lock is released
    after the task has ended.
    """

    _running = False

    async def _begin(self, fence: int) -> None:
        begun = self._elected(fence)
        if inspect.isawaitable(begun):
            await begun

    async def _finish(self, work: asyncio.Task[bool]) -> None:
        work.cancel()
        await asyncio.wait({work})

    def run(self) -> Coroutine[Any, Any, None]:
        """Stand as a candidate, and lead when elected, until stop() or the client's close.

        If this is cancelled, it resigns first.
        """
        if not self._running:
            self._stopping = False  # stop() may be called before the task begins
        return self._campaign()

    async def _campaign(self) -> None:
        if self._running:
            raise RuntimeError(f"{self!r} runs already")
        self._running = True
        self._change = asyncio.Event()
        try:
            await self._run()
        finally:
            self._running = False

    def resign(self) -> None:
        """End the leadership, if there is one, and stand again, behind the other candidates."""
        self._resign()

    def stop(self) -> None:
        """Resign, and let run() end."""
        self._stop()


@final
class Leader(BaseLeader):
    """A candidate in a thread of its own; Client.leader() makes it.

        with client.leader("scheduler", elected=print) as leader:
            leader.is_leader

    elected(fence) runs in another thread and may take as long as it likes. It must return soon
    after lost() or resigned() was called, or is_leader became False: only then does this candidate
    stand again. The end of the program does not wait for it.
    """

    def __init__(self, client: Client, name: str | bytes, elected: Elected, *more: Any) -> None:
        """Only Client.leader() makes this object."""
        if inspect.iscoroutinefunction(elected):
            raise TypeError(f"{elected!r} is a coroutine function: {_ASYNC}")
        super().__init__(client, name, elected, *more)

    _thread: threading.Thread | None = None
    _worker: threading.Thread | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    async def _begin(self, fence: int) -> None:
        """Call elected() in a thread outside all pools: Python waits for those when it ends."""
        ended: concurrent.futures.Future[None] = concurrent.futures.Future()

        def work() -> None:
            try:
                self._work(fence)
                ended.set_result(None)
            except BaseException as raised:
                ended.set_exception(raised)

        run = contextvars.copy_context().run
        threading.Thread(target=run, args=(work,), name="holdfast-elected", daemon=True).start()
        await asyncio.wrap_future(ended)

    def _work(self, fence: int) -> None:
        self._worker = threading.current_thread()
        try:
            begun = _contained(lambda: self._elected(fence))
        finally:
            self._worker = None
        if inspect.iscoroutine(begun):
            begun.close()
            raise TypeError(f"elected() gave a coroutine, which nothing runs: {_ASYNC}")

    async def _finish(self, work: asyncio.Task[bool]) -> None:
        await asyncio.wait({work})

    async def _tell(self, over: Ended) -> None:
        await super()._tell(lambda: _contained(over))

    def start(self) -> None:
        """Stand as a candidate. Starts a thread."""
        if self._thread is not None and self._thread.is_alive():
            raise RuntimeError(f"{self!r} has started already")
        self._stopping = False
        self._change = asyncio.Event()  # for the new loop
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._campaign, args=(self._loop,), name="holdfast-leader", daemon=True
        )
        self._thread.start()

    def _campaign(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_until_complete(self._run())
        finally:
            loop.close()

    def _soon(self, work: Callable[[], object]) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(work)

    def resign(self) -> None:
        """End the leadership, if there is one, and stand again, behind the other candidates."""
        self._soon(self._resign)

    def stop(self) -> None:
        """Resign, and wait until elected() and resigned() have returned.

        A call from within either of them does not wait.
        """
        thread = self._thread
        if thread is None:
            return
        self._soon(self._stop)
        if threading.current_thread() not in (thread, self._worker):
            while thread.is_alive() and not _errors.ending:  # then it may be suspended
                thread.join(0.1)

    def __enter__(self) -> Leader:
        """Stand as a candidate."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Resign, as stop()."""
        self.stop()
