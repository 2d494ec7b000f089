"""Several acquires in memory: all succeed, or none."""

from __future__ import annotations

from collections.abc import Callable

from .. import _holdfast
from .._errors import error
from ._space import Completion, Handle, Lock, Waiter

Begin = Callable[[float, Callable[[Waiter], None]], Waiter]


class Group:
    """Acquires made one after the other, in the order of the names."""

    def __init__(self, locks: list[Lock], begins: list[Begin], timeout: float, op: int) -> None:
        """Begin; `op` is 0 for a thread that blocks, or else the number of the first acquire."""
        self._client = locks[0].client
        self._space = self._client.space
        self._begins = begins
        self._order = sorted(range(len(locks)), key=lambda at: locks[at].name)
        self._op = op
        self._timeout = timeout
        self._until = self._space.now + timeout
        self._waiter: Waiter | None = None
        self._got: dict[int, Handle] = {}
        self._how: tuple[int, str, int] | None = None  # the end: status, message, detail
        self._next()

    def _next(self) -> None:
        self._waiter = None
        # With 0 a lock would be busy, and not time out.
        left = self._timeout and max(1, self._until - self._space.now)
        waiter = self._begins[self._order[len(self._got)]](left, self._ended)
        if waiter.status is None:
            self._waiter = waiter

    def _ended(self, waiter: Waiter) -> None:
        at = self._order[len(self._got)]
        handle, waiter.handle = waiter.handle, None
        if handle is None:
            self._end(waiter.status or 0, waiter.message, waiter.detail(at))
            return
        self._got[at] = handle
        holds = {each.hold for each in self._got.values()}
        if not self._space.reachable:
            self._end(_holdfast.HF_ECONNECT, "the memory server is stopped", at)
        elif len(holds) < len(self._begins):
            self._next()
        elif not all(hold.stands() for hold in holds):  # a lease has ended meanwhile
            self._give_back()
            self._next()
        else:
            for hold in holds:
                hold.joined = holds - {hold}
            self._end(_holdfast.HF_OK, "", 0)

    def _give_back(self) -> None:
        for handle in self._got.values():
            grant = handle.hold.end()
            if self._space.reachable:
                grant.key.remove(grant)
        self._got.clear()

    def _end(self, status: int, message: str, detail: int) -> None:
        self._how = status, message, detail
        if status != _holdfast.HF_OK:
            self._give_back()
        for at in range(len(self._begins) if self._op else 0):
            hold, kind = self._got.pop(at, None), _holdfast.HF_KIND_ACQUIRE
            number = hold.hold.number if hold is not None else 0
            told = Completion(kind, status, self._op + at, number, hold, detail, message)
            self._client.tell(told)
        self._space.wake()

    def wait(self) -> list[Handle]:
        """Block until the group has ended."""
        try:
            while self._how is None:
                self._space.sleep()
        except BaseException:  # from a signal handler
            if self._waiter is not None and self._how is None:
                self._waiter.end(_holdfast.HF_EINTR, "the wait was interrupted")
            self._give_back()
            raise
        if self._how[0] != _holdfast.HF_OK:
            raise error(*self._how)
        return [handle for _, handle in sorted(self._got.items())]
