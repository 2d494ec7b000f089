"""Client.once(): one caller calls a function, and all others get its result.

The rules are generators, written once: they yield steps, which a port carries out for a thread or
for a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, final

from . import _holdfast, _log
from ._arguments import called, duration, flag, function, noted, patience, whole
from ._errors import (
    KeptError,
    LockError,
    LockLost,
    LockNotOwnedError,
    NotKept,
    OutcomeSettled,
    OutcomeUnknown,
    ResultNotKept,
    ServerError,
    error,
)
from ._hold import Bound, excuse, seconds
from ._json import canonical, from_json, to_json
from ._lock import flagged, loose
from ._locked import Parameters, namer, refuse_generators
from ._options import LockChanges, LockOptions, merged

if TYPE_CHECKING:
    from ._aio import AsyncHold, AsyncLock
    from ._client import Client
    from ._hold import Hold
    from ._lock import Lock

Result = TypeVar("Result")
Answer = TypeVar("Answer")
Told = TypeVar("Told")

_TTL_MIN = 10_000  # ms, as in hf_once_finish()
RESULT_MAX = 1 << 20
_MESSAGE_MAX = 4096

most = flagged(_holdfast.HF_ACQUIRE_AT_MOST_ONCE)

State = Literal["running", "unknown", "retry", "done", "failed"]
_STATES: dict[int, State] = {
    _holdfast.HF_ONCE_RUNNING: "running",
    _holdfast.HF_ONCE_UNKNOWN: "unknown",
    _holdfast.HF_ONCE_RETRY: "retry",
    _holdfast.HF_ONCE_DONE: "done",
    _holdfast.HF_ONCE_FAILED: "failed",
}

Match = (
    type[BaseException] | tuple[type[BaseException], ...] | Callable[[BaseException], bool] | None
)
"""Exceptions: a class, several classes, or a function that decides for an exception."""


class OnceTerms(LockChanges, total=False):
    """The arguments of Client.once() that its other forms take, too."""

    timeout: float | timedelta | None
    at_most_once: bool
    keep: Match
    keep_ttl: float | timedelta | None
    not_called: Match
    unknown_ttl: float | timedelta | None
    max_result: int
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


# ----------------------------------------------------------------------- Terms


def _function(what: str, given: object) -> None:
    if given is None:
        raise TypeError(f"{what} must be a function, not None")
    function(what, given)
    if getattr(given, "__module__", "") in ("pickle", "_pickle"):
        raise TypeError(
            f"{what} must not be pickle: whoever may write to the server could run code in every"
            " process that reads a result; give JSON, or bytes of your own"
        )


def _matcher(what: str, given: Match) -> Callable[[BaseException], bool]:
    if given is None:
        return lambda raised: False
    kinds = given if isinstance(given, tuple) else (given,)
    if all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        classes = cast("tuple[type[BaseException], ...]", kinds)
        return lambda raised: isinstance(raised, classes)
    if isinstance(given, (tuple, type)) or not callable(given):
        raise TypeError(f"{what} must be exception classes, or a function, not {given!r}")
    function(what, given)
    return lambda raised: called(what, given, raised)


def _classes(given: Match) -> list[type[BaseException]]:
    """Return the classes that keep= allows for a kept error: thousands, if it is Exception."""
    kinds = given if isinstance(given, tuple) else (given,)
    found: list[type[BaseException]] = [kind for kind in kinds if isinstance(kind, type)]
    known = set(found)
    for kind in found:  # the list grows
        below: list[type[BaseException]] = kind.__subclasses__()
        found += [each for each in below if each not in known]
        known.update(below)
    return found


def _text(raised: BaseException) -> str:
    """Return the message of an exception; or an empty text, if its own method raises."""
    try:
        return str(raised)
    except Exception:
        return ""


def _said(raised: BaseException) -> str:
    text = _text(raised)
    return f"{type(raised).__name__}: {text}" if text else type(raised).__name__


def _shortened(text: str) -> bytes:
    return text.encode("utf-8", "replace")[: _holdfast.HF_NOTE_MAX]


class Terms(Generic[Result]):
    """The terms of a call: how it is made, and what is kept of it."""

    def __init__(
        self,
        name: str | bytes,
        ttl: float | timedelta,
        timeout: float | timedelta | None = None,
        at_most_once: bool = False,
        args: object = None,
        keep: Match = None,
        keep_ttl: float | timedelta | None = None,
        not_called: Match = None,
        note: str | None = None,
        unknown_ttl: float | timedelta | None = None,
        max_result: int = RESULT_MAX,
        encode: Callable[[Result], bytes] = to_json,
        decode: Callable[[bytes], Result] = from_json,
    ) -> None:
        """Check the arguments of once()."""
        self.name = name
        _function("encode", encode)
        _function("decode", decode)
        self._encode = encode
        self.decode = decode
        self.milliseconds = patience(True, -1 if timeout is None else timeout)
        self.ttl = duration("ttl", ttl, least=_TTL_MIN)
        self.most = flag("at_most_once", at_most_once)
        self.print = None if args is None else fingerprint(args)
        self._keep = _matcher("keep", keep)
        self._named = keep
        self.keep_ttl = (
            self.ttl if keep_ttl is None else duration("keep_ttl", keep_ttl, least=_TTL_MIN)
        )
        self._not_called = _matcher("not_called", not_called)
        self.note = noted("note", note or "")
        self.unknown = (
            _holdfast.HF_NEVER
            if unknown_ttl is None
            else duration("unknown_ttl", unknown_ttl, least=_TTL_MIN)
        )
        if not self.most and (unknown_ttl is not None or not_called is not None):
            raise ValueError("unknown_ttl and not_called are for at_most_once=True")
        self._max = whole("max_result", max_result, 1, _holdfast.HF_RESULT_MAX)

    def encoded(self, result: Result) -> bytes:
        """Encode a result."""
        made = self._encode(result)
        if not isinstance(made, bytes):
            raise TypeError(f"encode must give bytes, not {type(made).__name__}")
        if len(made) > self._max:
            raise ValueError(
                f"the result has {len(made)} bytes: at most {self._max}, by max_result, which may"
                f" be up to {_holdfast.HF_RESULT_MAX}"
            )
        return made

    def end(self, raised: BaseException) -> tuple[int, bytes, int]:
        """Return the record of a call that raised: a state, its bytes, and their ttl."""
        if self._keep(raised):
            return _holdfast.HF_ONCE_FAILED, kept(raised), self.keep_ttl
        if self._not_called(raised):
            return _holdfast.HF_ONCE_RETRY, b"", 0
        return _holdfast.HF_ONCE_UNKNOWN, _shortened(_said(raised)), 0

    def failed(self, told: KeptError) -> BaseException:
        """Return a kept error as the caller's class, if keep= names it and it takes a message."""
        for kind in _classes(self._named):
            if kind.__name__ == told.type:
                plain = all(
                    not {"__init__", "__new__"} & vars(base).keys() or base.__module__ == "builtins"
                    for base in kind.__mro__
                )
                if plain:
                    with contextlib.suppress(TypeError):
                        return kind(told.message)
        return told

    def warn(self, failed: LockError | MemoryError) -> None:
        """Warn that other callers will not get the result."""
        why = _text(failed) or type(failed).__name__
        _log.warning("the result of once(%r) was not left for others: %s", self.name, why)


_TERMS = set(OnceTerms.__annotations__) - set(LockChanges.__annotations__)


def agreed(
    name: str | bytes,
    ttl: float | timedelta,
    args: object,
    options: LockOptions | None,
    given: OnceTerms,
) -> tuple[Terms[Any], LockOptions]:
    """Divide the arguments of once() into those of the call and those of its lock."""
    rest = dict(given)
    terms: dict[str, Any] = {key: rest.pop(key) for key in _TERMS & rest.keys()}
    chosen = merged(options, cast("LockChanges", rest))
    return Terms(name, ttl, args=args, note=chosen.note, **terms), chosen


def fingerprint(args: object) -> bytes:
    """Return the SHA-256 of a call's arguments."""
    return hashlib.sha256(args if isinstance(args, bytes) else canonical(args)).digest()


def kept(raised: BaseException) -> bytes:
    """Encode an error that is kept."""
    told = {"type": type(raised).__name__, "message": _text(raised)[:_MESSAGE_MAX], "data": None}
    with contextlib.suppress(TypeError, ValueError):
        found = to_json({**told, "data": getattr(raised, "data", None)})
        if len(found) <= RESULT_MAX:
            return found
    return to_json(told)


def unkept(found: bytes, name: str | bytes) -> KeptError:
    """Decode an error that was kept, in whatever language."""
    try:
        told = from_json(found)
        kind, message, data = str(told["type"]), str(told["message"]), told.get("data")
    except (ValueError, TypeError, KeyError, AttributeError):
        kind, message, data = "", found[:_MESSAGE_MAX].decode("utf-8", "replace"), None
    made = KeptError(f"the call {name!r} failed: {kind}: {message}")
    made.type, made.message, made.data = kind, message, data
    return made


# -------------------------------------------------------------------- Outcomes


@dataclass(frozen=True, slots=True)
class _Settlement:
    """A caller's settlement of a call: the arguments of hf_once_settle()."""

    state: int
    fence: int
    flags: int
    result: bytes | None
    ttl: int
    note: bytes


class BaseOutcome(Bound, Generic[Answer]):
    """The record of a call that is made once, as it was when it was read."""

    __slots__ = (
        "_bytes",
        "_lock",
        "_terms",
        "at_most_once",
        "fence",
        "note",
        "owner",
        "since",
        "size",
        "state",
        "ttl",
    )

    def __init__(
        self, lock: Lock, terms: Terms[Any], info: _holdfast.OnceInfo, found: bytes | None
    ) -> None:
        """Only clients make outcomes."""
        state, at_most, _, fence, since, ttl, length, owner, note = info
        self._lock, self._terms, self._bytes = lock, terms, found
        self.state: State = _STATES[state]
        """"running" while its caller holds the lock, "unknown" if it is unknown how it ended,
        "retry" if it may be made again, "done", or "failed" with an error that is kept."""
        self.at_most_once = bool(at_most)
        """Is it made at most once?"""
        self.fence = fence
        """The fence of the hold that made it."""
        self.since = datetime.fromtimestamp(since / 1000, timezone.utc)
        """When it reached that state, by the server's clock."""
        self.ttl = seconds(ttl)
        """For how many seconds this stays; None: until it is settled."""
        self.size = length
        """The bytes of its result or error."""
        self.owner = owner.decode("utf-8", "surrogateescape")
        """The owner of that hold, or of the caller that settled it."""
        self.note = note.decode("utf-8", "replace")
        """The note of its caller, or of the caller that settled it."""

    @property
    def result(self) -> Any:
        """The result. Raises the error if the call failed, LockError if there is no result yet."""
        if self.state == "failed":
            raise self.error from None
        if self.state != "done" or self._bytes is None:
            raise LockError(f"the call {self._terms.name!r} has no result: it is {self.state}")
        return self._terms.decode(self._bytes)

    @property
    def error(self) -> BaseException:
        """The error that is kept. Raises LockError if there is no error."""
        if self.state != "failed" or self._bytes is None:
            raise LockError(f"the call {self._terms.name!r} has no error: it is {self.state}")
        return self._terms.failed(unkept(self._bytes, self._terms.name))

    def resolve(
        self,
        result: object,
        *,
        ttl: float | timedelta | None = None,
        note: str = "",
        force: bool = False,
    ) -> Answer:
        """Report that the call was made, and keep its result. One round trip.

        ttl    How many seconds it is kept; by default the ttl of once(), or a day.
        note   The reason, shown with the outcome.
        force  Also settle a call that is running, which ends its hold; and replace a result.

        Raises OutcomeSettled if it is done or settled already, LockTimeout if it is running,
        LockNotOwnedError if it was forgotten or made again, otherwise as Lock.inspect().
        """
        made = self._terms.encoded(result)
        return self._settled(_holdfast.HF_ONCE_DONE, made, self._kept_for(ttl), note, force)

    def resolve_error(
        self,
        failed: BaseException,
        *,
        ttl: float | timedelta | None = None,
        note: str = "",
        force: bool = False,
    ) -> Answer:
        """Report that the call was made and failed, and keep the error. As resolve()."""
        made = kept(failed)
        return self._settled(_holdfast.HF_ONCE_FAILED, made, self._kept_for(ttl), note, force)

    def retry(self, *, note: str = "", force: bool = False) -> Answer:
        """Report that the call may be made again: the next caller makes it. As resolve().

        A late result of the first caller is still kept, until the call is made again.
        """
        return self._settled(_holdfast.HF_ONCE_RETRY, None, 0, note, force)

    def forget(self, *, force: bool = False) -> Answer:
        """Forget the call, including its result: the next caller makes it. As resolve()."""
        return self._settled(_holdfast.HF_ONCE_NONE, None, 0, "", force)

    def _kept_for(self, ttl: float | timedelta | None) -> int:
        return self._terms.ttl if ttl is None else duration("ttl", ttl, least=_TTL_MIN)

    def _settled(
        self, state: int, result: bytes | None, ttl: int, note: str, force: bool
    ) -> Answer:
        flags = _holdfast.HF_SETTLE_FORCE if flag("force", force) else 0
        said = noted("note", note)
        return self._settle(_Settlement(state, self.fence, flags, result, ttl, said))

    def _settle(self, said: _Settlement) -> Answer:
        raise NotImplementedError

    def _tell(self, said: _Settlement) -> None:
        self._lock._call(
            self._lock._core.hf_once_settle,
            said.state,
            said.fence,
            said.flags,
            said.result,
            said.ttl,
            said.note,
        )

    def __repr__(self) -> str:
        """Show the state and the fence."""
        return (
            f"<holdfast.{type(self).__name__} {self.state} name={self._terms.name!r}"
            f" fence={self.fence}>"
        )


@final
class Outcome(BaseOutcome[None]):
    """The record of a call that is made once, as it was when it was read."""

    __slots__ = ()

    def _settle(self, said: _Settlement) -> None:
        self._tell(said)


@final
class AsyncOutcome(BaseOutcome[Awaitable[None]]):
    """The record of a call, whose methods are awaited."""

    __slots__ = ()

    async def _settle(self, said: _Settlement) -> None:
        await self._lock._client._notices_here().ask(self._tell, said)


AnyOutcome = Outcome | AsyncOutcome


def look(lock: Lock, terms: Terms[Any], kind: type[Told]) -> Told | None:
    """Read the record of the call. One round trip."""
    got: list[_holdfast.Hold] = []
    lock._call(lock._core.hf_once_look, got)
    info = lock._core.hf_once_outcome(got[0])
    if info[0] == _holdfast.HF_ONCE_NONE:
        return None
    found = lock._core.hf_hold_result(got[0])
    return kind(lock, terms, info, found)  # type: ignore[call-arg]


# ----------------------------------------------------------------------- Ports


class _Port:
    """Carry out the steps for a thread."""

    outcome: type[AnyOutcome] = Outcome

    def __init__(self, lock: Lock, terms: Terms[Any]) -> None:
        self.lock, self.terms = lock, terms
        self.got: list[_holdfast.Hold] = []
        self.hold: Hold | None = None

    def begin(self, milliseconds: int) -> tuple[int, str]:
        self.got.clear()
        self.hold = None
        how = most if self.terms.most else loose
        status, why = self.lock._begin(milliseconds, self.got, how, self.terms.print)
        if status == _holdfast.HF_OK:
            self.hold = self.lock._take(self.got[0], loose, None, None)
        return status, why

    def mark(self) -> tuple[int, str]:
        return self.lock._core.hf_once_mark(self.got[0], self.terms.unknown, self.terms.note)

    def finish(self, state: int, result: bytes, ttl: int) -> None:
        assert self.hold is not None
        self.hold._leave(state, result, ttl)

    def release(self) -> None:
        if self.hold is not None:
            self.hold.release()
        elif self.got:
            self.lock._core.hf_hold_release(self.got[0])

    def call(self, call: Callable[[], Any]) -> Any:
        return call()


class _AsyncPort:
    """Carry out the steps for a task."""

    outcome: type[AnyOutcome] = AsyncOutcome

    def __init__(self, lock: AsyncLock, terms: Terms[Any]) -> None:
        self.lock, self.terms = lock._lock, terms
        self._lock = lock
        self.got: list[_holdfast.Hold] = []
        self.hold: AsyncHold | None = None

    async def begin(self, milliseconds: int) -> tuple[int, str]:
        self.got.clear()
        self.hold = None
        how = most if self.terms.most else loose
        status, handle, why = await self._lock._begin(milliseconds, how, self.terms.print)
        self.got.append(handle)
        if status == _holdfast.HF_OK:
            self.hold = self._lock._take(handle, None, loose, None, None)
        return status, why

    async def mark(self) -> tuple[int, str]:
        core, terms = self.lock._core, self.terms
        asked = self._lock._ask(core.hf_once_mark, self.got[0], terms.unknown, terms.note)
        thread = asyncio.ensure_future(asked)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            while not thread.done():  # a call that has begun is withdrawn afterwards
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([thread])
            thread.exception()
            raise

    async def finish(self, state: int, result: bytes, ttl: int) -> None:
        assert self.hold is not None
        await self.hold._leave(state, result, ttl)

    async def release(self) -> None:
        if self.hold is not None:
            await self.hold.release()
        elif self.got:
            self._lock._notices().drop(self.got[0])

    async def call(self, call: Callable[[], Any]) -> Any:
        made = call()
        return await made if inspect.isawaitable(made) else made  # what a plain function paid for


Steps = Generator[tuple[Any, ...], Any, Told]


def _run(rules: Steps[Told], port: _Port) -> Told:
    try:
        _run_task(rules, port).send(None)
    except StopIteration as ended:
        return cast("Told", ended.value)
    raise AssertionError("a step of a thread waits for an event loop")


async def _run_task(rules: Steps[Told], port: _Port | _AsyncPort) -> Told:
    answer: Any = None
    raised: BaseException | None = None
    while True:
        try:
            step, *rest = rules.send(answer) if raised is None else rules.throw(raised)
            raised = None
            answer = getattr(port, step)(*rest)
            if isinstance(port, _AsyncPort):
                answer = await answer
        except BaseException as failed:
            if inspect.getgeneratorstate(rules) == inspect.GEN_CLOSED:
                if isinstance(failed, StopIteration):
                    return cast("Told", failed.value)
                raise
            raised = failed


# ----------------------------------------------------------------------- Turns


class BaseTurn(Bound, Generic[Answer]):
    """A caller's turn to make a call, or the outcome of the call."""

    __slots__ = ("_mine", "_port", "_terms", "outcome")

    def __init__(self, port: _Port | _AsyncPort, terms: Terms[Any]) -> None:
        """Only clients make turns."""
        self._port = port
        self._terms = terms
        self._mine = False  # it is the caller's turn, which has not ended
        self.outcome: Any = None
        """The Outcome of the call, if it is done or failed; None: make the call."""

    # The rules. Each step is the name of a port's method, with its arguments.

    def _begin(self) -> Steps[None]:
        terms, port = self._terms, self._port
        forever = terms.milliseconds == _holdfast.HF_FOREVER
        until = math.inf if forever else time.monotonic() + terms.milliseconds / 1000
        left = terms.milliseconds
        while True:
            try:
                status, why = yield "begin", left
                if status == _holdfast.HF_OK and terms.most:
                    # From here on the next caller does not call, whatever happens to this caller.
                    status, why = yield ("mark",)
            except LockLost as lost:  # this caller was suspended before its call: ask again
                if not forever:
                    left = max(0, math.ceil((until - time.monotonic()) * 1000))
                if not left:
                    raise lost from None
                continue
            except BaseException as raised:
                yield from self._leave(_holdfast.HF_ONCE_RETRY, b"", 0, raised)
                raise
            break
        if status == _holdfast.HF_OK:
            self._mine = True
            return
        core = port.lock._core
        info, found = core.hf_once_outcome(port.got[0]), core.hf_hold_result(port.got[0])
        self.outcome = port.outcome(port.lock, terms, info, found)
        if status not in (_holdfast.HF_EDONE, _holdfast.HF_EFAILED):
            raise self._described(error(status, why))

    def _described(self, failed: Exception) -> Exception:
        if isinstance(failed, OutcomeUnknown):
            told = self.outcome
            failed.outcome, failed.name = told, self._terms.name
            failed.fence, failed.owner = told.fence, told.owner
            failed.since, failed.note = told.since, told.note
        return failed

    def _finish(self, result: Any) -> Steps[Any]:
        terms = self._terms
        self._check()
        if inspect.iscoroutine(result):
            result.close()
            wrong = TypeError(
                f"the call {terms.name!r} gave a coroutine, whose body has not run: give the"
                " coroutine function to client.aio.once()"
            )
            yield from self._leave(*self._unknown(_said(wrong)), wrong)  # what else it did
            raise wrong
        try:
            encoded = terms.encoded(result)
            shown = terms.decode(encoded)  # all callers get the same
        except BaseException as failed:
            yield from self._leave(*self._unknown(f"encode: {_said(failed)}"), failed)
            if not isinstance(failed, Exception):
                raise
            raise self._not_kept(result, "encoding", failed) from failed
        try:
            self._mine = False
            yield "finish", _holdfast.HF_ONCE_DONE, encoded, terms.ttl
        except (LockError, MemoryError) as failed:
            if not terms.most:
                terms.warn(failed)
                return shown
            raise self._not_kept(result, _reason(failed), failed) from failed
        return shown

    def _not_kept(self, result: object, reason: NotKept, failed: Exception) -> ResultNotKept:
        port, name = self._port, self._terms.name
        why = _text(failed) or type(failed).__name__
        made = ResultNotKept(
            f"the call {name!r} was made, but its result is not kept for others: {why};"
            " this exception has it as .result"
        )
        made.result, made.reason = result, reason
        fence = port.hold.fence if port.hold is not None else 0
        now = time.time_ns() // 1_000_000
        at_most = int(self._terms.most)
        info = (_holdfast.HF_ONCE_UNKNOWN, at_most, 0, fence, now, _holdfast.HF_NEVER, 0, b"", b"")
        made._outcome = port.outcome(port.lock, self._terms, info, None)
        return made

    def _unknown(self, why: str) -> tuple[int, bytes, int]:
        return _holdfast.HF_ONCE_UNKNOWN, _shortened(why), 0

    def _ended(self, state: int, result: bytes, ttl: int) -> Steps[None]:
        """End the turn with this state, and raise any failure."""
        self._check()
        self._mine = False
        if self._terms.most or state == _holdfast.HF_ONCE_FAILED:
            yield "finish", state, result, ttl
        else:
            yield ("release",)

    def _leave(
        self, state: int, result: bytes, ttl: int, raised: BaseException | None
    ) -> Steps[None]:
        """End the turn with this state, and let `raised` pass, whatever fails."""
        hold = self._port.hold
        self._mine = False
        try:
            if hold is None:
                yield ("release",)
            elif self._terms.most or (
                state == _holdfast.HF_ONCE_FAILED and hold.state != "released"
            ):
                if hold.state != "released":
                    yield "finish", state, result, ttl
            elif hold.state != "released":
                yield ("release",)
        except (LockError, MemoryError) as failed:
            excuse(failed, raised, True)

    def _left(self, raised: BaseException | None) -> Steps[None]:
        """End the turn after its block."""
        if not self._mine:
            return
        if raised is None:
            yield from self._leave(*self._unknown("the caller did not say"), None)
            return
        try:
            end = self._terms.end(raised)
        except Exception as failed:  # from a predicate
            _log.exception("keep= or not_called= of once(%r) failed", self._terms.name)
            end = self._unknown(f"{_said(raised)}; and {_said(failed)}")
        yield from self._leave(*end, raised)

    def _check(self) -> None:
        if not self._mine:
            raise LockNotOwnedError(
                f"it is not this caller's turn to make the call {self._terms.name!r}, or no more"
            )

    # For users.

    @property
    def hold(self) -> Any:
        """The hold under which the call is made: a Hold, or an AsyncHold."""
        self._check()
        return self._port.hold

    def finish(self, result: object) -> Answer:
        """Report that the call was made: all other callers get the result.

        Raises ResultNotKept, with the result, if it is not kept; never TypeError or ValueError.
        """
        return self._do(self._finish(result))

    def fail(self, failed: BaseException) -> Answer:
        """Report that the call was made and failed: other callers get this error, for keep_ttl."""
        return self._do(self._ended(_holdfast.HF_ONCE_FAILED, kept(failed), self._terms.keep_ttl))

    def unknown(self, why: str = "") -> Answer:
        """Report that the outcome of the call is unknown.

        With at_most_once other callers get OutcomeUnknown; otherwise the next caller has the turn.
        """
        return self._do(self._ended(*self._unknown(why)))

    def withdraw(self) -> Answer:
        """Report that the call was not made: the next caller has the turn."""
        return self._do(self._ended(_holdfast.HF_ONCE_RETRY, b"", 0))

    def _do(self, rules: Steps[Any]) -> Answer:
        raise NotImplementedError


def _reason(failed: LockError | MemoryError) -> NotKept:
    if isinstance(failed, OutcomeSettled):
        return "settled"
    if isinstance(failed, LockNotOwnedError):
        return "lost"
    return "server" if isinstance(failed, ServerError) else "unreachable"


@final
class Turn(BaseTurn[None]):
    """A caller's turn to make a call, or the outcome of the call; from Client.once_begin().

    Leaving its block by an exception settles the call: keep= keeps the error, and not_called= lets
    the next caller make the call. After any other exception, or without finish(), fail(), unknown()
    or withdraw(), the outcome is unknown with at_most_once; otherwise the next caller makes the
    call.
    """

    __slots__ = ()

    def _do(self, rules: Steps[Any]) -> None:
        _run(rules, cast("_Port", self._port))

    def __enter__(self) -> Turn:
        """Return the turn."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the turn, unless the block did."""
        self._do(self._left(raised))


@final
class AsyncTurn(BaseTurn[Awaitable[None]]):
    """A task's turn to make a call, or the outcome of the call: a Turn with awaited methods.

    Made by AsyncClient.once_begin().
    """

    __slots__ = ()

    async def _do(self, rules: Steps[Any]) -> None:
        await _run_task(rules, cast("_AsyncPort", self._port))

    async def __aenter__(self) -> AsyncTurn:
        """Return the turn."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the turn, unless the block did."""
        await self._do(self._left(raised))


@final
class Beginning(Awaitable[AsyncTurn]):
    """The result of AsyncClient.once_begin(): await it, or enter it with `async with`."""

    def __init__(self, lock: AsyncLock, terms: Terms[Any]) -> None:
        """Only AsyncClient.once_begin() makes this object."""
        self._lock, self._terms = lock, terms
        self._inside = False

    async def _begin(self) -> AsyncTurn:
        port = _AsyncPort(self._lock, self._terms)
        turn = AsyncTurn(port, self._terms)
        await _run_task(turn._begin(), port)
        return turn

    def __await__(self) -> Generator[object, None, AsyncTurn]:
        """Begin."""
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncTurn:
        """Begin."""
        if self._inside:
            raise RuntimeError(
                "this once_begin() is entered already: call once_begin() again for another"
            )
        self._inside = True
        try:
            self._turn = await self._begin()
        except BaseException:
            self._inside = False
            raise
        return self._turn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the turn, unless the block did."""
        self._inside = False
        await self._turn.__aexit__(kind, raised, trace)


def once_begin(lock: Lock, terms: Terms[Any]) -> Turn:
    """Get the turn, or the outcome."""
    port = _Port(lock, terms)
    turn = Turn(port, terms)
    _run(turn._begin(), port)
    return turn


# ----------------------------------------------------------------------- Calls


def _once(turn: BaseTurn[Any], call: Callable[[], Any]) -> Steps[Any]:
    yield from turn._begin()
    if turn.outcome is not None:
        return _told(turn.outcome)
    try:
        result = yield "call", call
    except BaseException as raised:
        yield from turn._left(raised)
        raise
    return (yield from turn._finish(result))


def _told(outcome: BaseOutcome[Any]) -> Any:
    if outcome.state != "failed":
        return outcome.result
    failed = outcome.error
    cause = None
    if not isinstance(failed, KeptError):
        cause = unkept(outcome._bytes or b"", outcome._terms.name)
    raise failed from cause


def _check_call(call: object) -> None:
    if not callable(call):
        raise TypeError(f"call must be a function, not {call!r}")


def once(lock: Lock, terms: Terms[Result], call: Callable[[], Result]) -> Result:
    """Get the result of the function; call it if no caller has."""
    _check_call(call)
    if inspect.iscoroutinefunction(call):
        raise TypeError(f"{call!r} is a coroutine function: await client.aio.once() for it")
    port = _Port(lock, terms)
    result: Result = _run(_once(Turn(port, terms), call), port)
    return result


async def once_task(
    lock: AsyncLock, terms: Terms[Result], call: Callable[[], Awaitable[Result]]
) -> Result:
    """Get the result of the coroutine function; call it if no caller has."""
    _check_call(call)
    port = _AsyncPort(lock, terms)
    result: Result = await _run_task(_once(AsyncTurn(port, terms), call), port)
    return result


def once_call(
    client: Client,
    name: str,
    ttl: float | timedelta,
    args: Callable[..., object] | None,
    options: LockOptions | None,
    how: OnceTerms,
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Wrap the function in one that calls it once for all its callers."""
    named = namer(name, function)

    def wanted(given: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Terms[Any], LockOptions]:
        made = None if args is None else args(*given, **kwargs)
        return agreed(named(given, kwargs), ttl, made, options, how)

    if inspect.iscoroutinefunction(function):

        async def once_awaited(*given: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
            terms, chosen = wanted(given, kwargs)
            lock = client.aio.lock(terms.name, chosen)
            return await once_task(lock, terms, lambda: function(*given, **kwargs))

        wrapped = functools.update_wrapper(once_awaited, function)
        return cast("Callable[Parameters, Result]", wrapped)
    refuse_generators(function)

    def once_called(*given: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        terms, chosen = wanted(given, kwargs)
        result: Result = once(
            client.lock(terms.name, chosen), terms, lambda: function(*given, **kwargs)
        )
        return result

    return functools.update_wrapper(once_called, function)


def for_looking(
    name: str | bytes,
    encode: Callable[[Any], bytes] | None,
    decode: Callable[[bytes], Any],
    max_result: int,
) -> Terms[Any]:
    """Make the terms of a caller that looks, and may settle the call."""
    encode = encode or (to_json if decode is from_json else _unknown_encoding)
    return Terms(name, 86400, encode=encode, decode=decode, max_result=max_result)


def _unknown_encoding(result: object) -> bytes:
    raise TypeError("to resolve a call, give once_result() the encode= of the call beside decode=")
