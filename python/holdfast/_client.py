"""The client: a connection pool, and the holds acquired through it."""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import re
import sys
import warnings
import weakref
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from . import _errors, _holdfast, _log, _native
from ._alarm import Alarm, Rule, native, teller
from ._arguments import duration, encoded, flag, function, pair, whole
from ._async_client import AsyncClient
from ._caller import serial
from ._errors import ClosedError
from ._gate import Gate
from ._hold import Bound
from ._json import from_json
from ._leader import Elected, Ended, Leader
from ._lock import Lock
from ._locked import Parameters, Result, check, locked, sharing
from ._look import RATE, Limit, Locks, limit_of
from ._notices import Notices
from ._once import (
    RESULT_MAX,
    OnceTerms,
    Outcome,
    Turn,
    agreed,
    for_looking,
    look,
    once,
    once_begin,
    once_call,
)
from ._once_per import check_period, once_per
from ._options import LockChanges, LockOptions, anchor, merged, switch
from ._several import LocksAll
from ._sigterm import check_main_thread, exit_on_sigterm
from ._stats import Stats, stats
from ._survey import Finding, survey
from ._threads import Threads, watch
from ._trouble import Trouble, troubler

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

# ----------------------------------------------------------------------- At exit

_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def clients_here() -> list[tuple[str, Client]]:
    """Return this process's clients, each by its client_name, and by a number if two share it."""
    named: dict[str, Client] = {}
    for client in sorted(_clients, key=lambda each: each._number):
        if client._handles:
            name, more = client._options.client_name or "holdfast", 2
            unique = name
            while unique in named:
                unique, more = f"{name}-{more}", more + 1
            named[unique] = client
    return list(named.items())


_numbers = itertools.count(1)
_finalized = 0  # the process in which multiprocessing calls _end(), too


@atexit.register
def _end() -> None:
    """Close the clients that are still open, or leave their holds to their leases."""
    _errors.ending = True
    clients = list(_clients)
    for client in clients:
        client._finish()
    for client in clients:  # first of all, or a waiter of one client would get the lock of another
        client._stop()
    for client in clients:
        if client._close_at_exit:
            client.close()
        else:
            client._abandon()
        client._look()  # the thread that looks may be suspended, while others wait for a loss


def _end_with_process() -> None:
    """Have _end() called in a child of multiprocessing, which does not call atexit's handlers."""
    global _finalized
    process = sys.modules.get("multiprocessing.process")
    if _finalized == os.getpid() or process is None or process.parent_process() is None:
        return
    from multiprocessing.util import Finalize

    _finalized = os.getpid()
    Finalize(None, _end, exitpriority=0)


class Client(Bound):
    """A connection pool, and the holds acquired through it; connect() makes it.

    Any thread may call every method. A client is a context manager that closes. After a fork the
    child opens a new client on first use; the parent's holds stay the parent's.
    """

    _core = cast("_holdfast.Core", _holdfast)

    def __init__(
        self,
        url: str,
        options: _native.hf_client_options,
        close_at_exit: bool,
        on_alarm: Callable[[Alarm], object] | None,
        on_trouble: Callable[[Trouble], object] | None,
    ) -> None:
        """Only connect() makes clients."""
        # Each process has its own handle, by process id. Empty once the client is closed.
        self._handles: dict[int, _holdfast.Client] = {}
        self._anchors: list[_holdfast.Lock] = []
        self._notices: dict[int, Notices] = {}
        self._threads = Threads() if Threads.__base__.__module__ == "_thread" else None  # no gevent
        self._url = url
        self._options = options
        self._close_at_exit = close_at_exit
        self._alarmed = teller(on_alarm)
        self._troubled = troubler(on_trouble) if on_trouble is not None else None
        self._hears_in = 0  # the process that has a thread for trouble
        self._number = next(_numbers)
        options.trouble = _holdfast.HF_ON
        self._handles[os.getpid()] = self._open()
        options.lazy = _holdfast.HF_ON  # a forked child's first call connects, in its own time
        _clients.add(self)
        self._hear_alarms(options.alarm_timeouts)

    def _open(self) -> _holdfast.Client:
        handle = self._core.hf_client_open(self._url, self._options)
        # An open lock keeps its memory, for calls that run during another thread's close().
        self._anchors.append(self._core.hf_lock_open(handle, b"holdfast", None, anchor))
        if warning := self._core.hf_client_warning(handle):
            _log.warning("%s", warning)
        self._core.hf_client_set_interrupt(handle)
        _end_with_process()
        return handle

    def _here(self) -> _holdfast.Client:
        """Return this process's handle."""
        here = os.getpid()
        handle = self._handles.get(here)
        if handle is None:
            if not self._handles:
                raise ClosedError("the client is closed")
            opened = self._open()
            handle = self._handles.setdefault(here, opened)
            if handle is not opened:  # another thread was first
                self._core.hf_client_close(opened)
            if not self._handles.keys() - {here}:  # another thread has closed the parent's
                if self._handles.pop(here, None) is not None:
                    self._core.hf_client_close(handle)
                raise ClosedError("the client is closed")
            self._hear_alarms(self._options.alarm_timeouts)
        return handle

    def _notices_here(self) -> Notices:
        """Return this process's notices; the first call begins to collect them."""
        handle, here = self._here(), os.getpid()
        if here not in self._notices:
            told = self._alarmed, self._troubled, self._connect_timeout()
            self._notices.setdefault(here, Notices(self._core, handle, *told))
        return self._notices[here]

    def _connect_timeout(self) -> float:
        """Return the seconds from the URL or connect(), whichever are more; 0: the default."""
        in_url = re.search(r"[?&]connect_timeout=([\d.]+)", self._url)
        given: int = self._options.connect_timeout_ms
        return max(given / 1000, float(in_url[1]) if in_url else 0)

    def _hear_alarms(self, timeouts: int) -> None:
        """Start a thread that reports alarms, if there is a rule for them."""
        if timeouts > 0:
            self._notices_here().listen()

    def _hear(self) -> None:
        """Start a thread that logs trouble, because a lock that is renewed is being acquired."""
        here = os.getpid()
        if self._hears_in != here:
            self._notices_here().listen()
            self._hears_in = here

    def _owner(self, caller: object) -> bytes:
        """Return the owner that represents a task, a greenlet or a job."""
        return self._core.hf_client_owner(self._here(), "a", serial(caller))

    def _watch(self, by: object | None, owner: bytes | None) -> None:
        """Warn if the caller, a thread or what it runs, ends without its own release()."""
        threads = self._threads
        if threads is None:
            return
        handle = self._here()
        if by is not None and owner is not None:
            watch(by, self._core, handle, owner)
        elif threads.watched is not handle:
            threads.watch(self._core, handle)

    def _look(self) -> None:
        """Wake the waits for a loss after a release, so that they check again."""
        if self._notices and (notices := self._notices.get(os.getpid())):
            notices.look()

    def _forget(self, number: int) -> None:
        """Stop reporting the loss of that hold."""
        if self._notices and (notices := self._notices.get(os.getpid())):
            notices.unwatch(number)

    def lock(
        self,
        name: str | bytes,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> Lock:
        """Make a Lock for a name. Sends nothing.

        name     1 to 4096 bytes; str is UTF-8 with surrogate escapes, bytes stay as given.
        options  LockOptions, for several locks; or single options by name, as in lease=60. Without
                 an owner, the owner is the calling thread.

        Raises ValueError and TypeError for wrong arguments, and ClosedError. Equal owners are one
        owner everywhere: "worker" on ten hosts excludes nothing.
        """
        return Lock(self, name, merged(options, changes))

    def locks(self, pattern: str | bytes = "*", *, rate: int | None = RATE) -> Locks:
        r"""Walk over all locks whose names match, on all nodes of a cluster: iterate over LockInfo.

            for info in client.locks("order:*"):
                print(info.name, info.owner, info.held_for, info.waiters)

        pattern  As in Redis's KEYS: * ? [a-z] [^a], and \\ before a special character.
        rate     The maximum number of reads per second; None: no limit. Reading one lock takes the
                 server some 30 microseconds; a search of 100 keys for locks counts as six reads.

        It walks over all keys by SCAN, which never blocks the server, and needs the permission for
        that. It lists once each lock that is held or waited for during the whole walk. Of other
        libraries' locks it lists Redisson's, and those for which a client of Holdfast waits. Raises
        ValueError, TypeError and ClosedError; and, while it walks, the exceptions of
        Lock.inspect().
        """
        return Locks(self, pattern, rate)

    def gate(
        self,
        name: str | bytes,
        limit: int | None = None,
        per: float | timedelta | None = None,
    ) -> Gate:
        """Make a Gate, which limits the number of passes in any period. Sends nothing.

            geocoder = client.gate("geocoder", limit=10, per=60)
            geocoder.enter()  # or GateFull, with .retry_after

        name   As for lock(): a gate is a lock of that name, which each pass holds shared() for
               `per` seconds. An exclusive holder of the lock keeps the gate shut.
        limit  The number of passes, 1 to 9999999999.
        per    Seconds, 0.01 to ten years.

        Give all gates of one name the same limit and period; or store them once, with limit(): then
        other numbers are refused, and gate(name) without both follows the stored rate. If no rate
        is stored, entering such a gate raises LimitDiffers.
        """
        return Gate(self, name, limit, per)

    def limit(
        self,
        name: str | bytes,
        *,
        permits: int | None = None,
        rate: tuple[int, float | timedelta] | None = None,
    ) -> Limit:
        """Store the number of a name's permits. One round trip.

            client.limit("warehouse", permits=5)
            client.limit("geocoder", rate=(10, 60))

        permits  1 to 9999999999; 0 removes the limit.
        rate     For a gate: the number of passes, and the period in seconds.

        From then on, on all hosts, a shared() lock with another number raises LimitDiffers, and
        a lock without permits follows this limit. A change ends no hold, and waiters follow it at
        once. Returns the limit that was stored before; None: no limit was. Raises as
        Lock.inspect(), and LockUnknown.
        """
        if (permits is None) == (rate is None):
            raise ValueError("a limit is either permits or a rate")
        most, number, per = _holdfast.HF_PERMITS_MAX, 0, 0
        if permits is not None:
            number = whole("permits", permits, 0, most)
        elif rate is not None:
            pair("rate", "(passes, seconds)", rate)
            number, per = whole("rate", rate[0], 1, most), duration("rate", rate[1])
        lock = self.lock(name)
        return limit_of(*lock._call(lock._core.hf_lock_limit, number, per))

    def locks_all(
        self,
        *locks: str | bytes | Lock,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> LocksAll:
        """Make LocksAll for several locks, which are acquired all or none. Sends nothing.

            with client.locks_all("account:1", "account:2") as holds: ...

            seats = client.lock("seats", permits=5)
            with client.locks_all("order:7", client.lock("stock").shared(), seats.shared()): ...

        locks    1 to 100 of different names, in any order: names, and locks of this client with
                 options of their own, exclusive and shared() ones mixed.
        options  As for lock(), for each name; on_lost is called once, with the Holds.

        Raises as lock(), and ValueError if a name occurs twice, or a lock has an on_lost.
        """
        return LocksAll(locks, merged(options, changes), self)

    @property
    def aio(self) -> AsyncClient:
        """The same client, for asyncio tasks."""
        return AsyncClient(self)

    def locked(
        self,
        name: str,
        timeout: float | timedelta | None = None,
        options: LockOptions | None = None,
        *,
        shared: bool | None = None,
        **changes: Unpack[LockChanges],
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
        """Decorate a function, or a coroutine function, so that it runs under a lock.

            @client.locked("report:{user_id}", timeout=5)
            def report(user_id: int) -> None: ...

        name     The lock's name; str.format() fills in the arguments of the call, through
                 holdfast.quote(). A call whose argument is None raises ValueError: all such calls
                 would share one lock.
        timeout  Seconds; 0 tries once; None or -1 waits without limit.
        options  As for lock().
        shared   Hold it shared(): calls run beside each other. None: shared if there are permits,
                 so that @client.locked("vendor", permits=3) lets three calls run at once.

        A call raises LockTimeout if other owners kept the lock, and otherwise as Lock.hold(). The
        decorator raises ValueError if a field of the name is not a parameter, and TypeError for a
        generator function.
        """
        check(name, timeout)
        chosen = merged(options, changes)
        shares = sharing(chosen, shared)
        return functools.partial(locked, self, name, timeout, chosen, shares)

    def once(
        self,
        name: str | bytes,
        call: Callable[[], Result],
        *,
        ttl: float | timedelta,
        args: object = None,
        options: LockOptions | None = None,
        **terms: Unpack[OnceTerms],
    ) -> Result:
        """Call a function once for all threads and processes that want its result.

            client.once("rate:EUR", lambda: vendor.rate("EUR"), ttl=60)
            client.once("pay:7", lambda: vendor.charge(7), ttl=86400, at_most_once=True)

        The first caller calls it; all others wait and get its result, and later callers get it at
        once, for as long as it is kept. If the function raises, or its process dies, the next
        caller calls it.

        With at_most_once the next caller does not: if the caller dies or loses its hold, or the
        function raises, all others get OutcomeUnknown until the call is settled, with resolve(),
        retry() or forget() of that exception or of once_result().

        name          The name of the call, and of its lock, as for lock().
        ttl           How many seconds the result is kept; at least 10, so that no waiting caller
                      misses it. "At most once", too, lasts for that time.
        timeout       Seconds to wait; 0 tries once; None or -1 waits without limit.
        at_most_once  All callers of a name must agree on it.
        args          The values on which the call depends: bytes, or values that JSON has. Their
                      SHA-256 is kept, and a caller with other args gets FingerprintMismatch. For
                      several languages give the same bytes.
        keep          Errors that are kept for all other callers: exception classes, or a function
                      of the exception. They get the class that is named here, if it can be made
                      from a message alone, or else KeptError.
        keep_ttl      How many seconds they are kept; by default as ttl.
        not_called    At most once: errors that prove that the call was not made, such as a refused
                      connection. The next caller calls. A timeout does not prove that.
        note          At most once: up to 1024 bytes for the person who settles an unknown outcome.
        unknown_ttl   At most once: how many seconds an unknown outcome is kept, from when the first
                      caller learns of it; then the next caller calls. None: until it is settled.
        max_result    The maximum number of bytes of a result, up to 16777216.
        encode        Encodes the function's result. By default JSON, which also keeps Decimal, date
                      and datetime.
        decode        Decodes the result, for every caller, even the caller that called the
                      function, so that all have the same.
        options       As for lock(). If the lease ends while the function runs, another caller calls
                      it, too, unless at_most_once; by default the lease is renewed. The owner and
                      reentrant mean nothing here: a function that calls once() for its own name
                      waits for itself.

        The caller that made the call gets the function's exception. ResultNotKept has the result of
        a call that was made, if it cannot be encoded or is too long, and with at_most_once also if
        it cannot be kept; otherwise its caller gets the result, and the log a warning. Raises
        LockTimeout if there was no result in time, and otherwise as Lock.hold(); then nothing was
        called.
        """
        made, chosen = agreed(name, ttl, args, options, terms)
        result: Result = once(self.lock(name, chosen), made, call)
        return result

    def once_begin(
        self,
        name: str | bytes,
        *,
        ttl: float | timedelta,
        args: object = None,
        options: LockOptions | None = None,
        **terms: Unpack[OnceTerms],
    ) -> Turn:
        """Get the turn to make a call, or the outcome of the call: once() in two parts.

            with client.once_begin("pay:7", ttl=86400, at_most_once=True) as turn:
                if turn.outcome is None:
                    turn.finish(vendor.charge(7))

        The arguments are those of once(). It waits, and raises, as once() does.
        """
        made, chosen = agreed(name, ttl, args, options, terms)
        return once_begin(self.lock(name, chosen), made)

    def once_result(
        self,
        name: str | bytes,
        *,
        encode: Callable[[Any], bytes] | None = None,
        decode: Callable[[bytes], Any] = from_json,
        max_result: int = RESULT_MAX,
        options: LockOptions | None = None,
    ) -> Outcome | None:
        """Read the record of a call that is made once; None: there is none. One round trip.

        encode, decode, max_result  As given to once(). With a decode, resolve() needs the encode.

        The methods of the record settle the call. Raises as Lock.inspect().
        """
        terms = for_looking(name, encode, decode, max_result)
        return look(self.lock(name, options), terms, Outcome)

    def once_forget(self, name: str | bytes, *, force: bool = False) -> bool:
        """Forget a call, including its result: the next caller makes it. Two round trips.

        force  Also forget a call that is running, whose hold ends then.

        Returns False if there was no record. Raises as Outcome.forget().
        """
        found = self.once_result(name)
        if found is not None:
            found.forget(force=force)
        return found is not None

    def once_call(
        self,
        name: str,
        *,
        ttl: float | timedelta,
        args: Callable[..., object] | None = None,
        options: LockOptions | None = None,
        **terms: Unpack[OnceTerms],
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
        """Decorate a function, or a coroutine function, so that once() calls it.

            @client.once_call("rate:{currency}", ttl=60)
            def rate(currency: str) -> float: ...

        name  The name of the call; str.format() fills in the arguments of the call, through
              holdfast.quote(). Calls with the same name have the same result: give it every
              argument on which the result depends, or give args.
        args  A function of the same arguments, which returns the args of once().

        The rest is as for once(), and the decorator raises as locked().
        """
        check(name, None, "@client.once_call")
        function("args", args)
        agreed(name, ttl, None, options, terms)
        return functools.partial(once_call, self, name, ttl, args, options, terms)

    def once_per(
        self,
        name: str,
        period: float | timedelta,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Any]]:
        """Decorate a function, or a coroutine function, so that one caller runs it in a period.

            @client.once_per("report:{day}", 3600)
            def report(day: str) -> None: ...

        name     The lock's name, as for locked().
        period   Seconds, counted from the start of the run, for which no other call runs it; as
                 with hold.keep(), so even if this process dies.
        options  As for lock(), but never reentrant.

        A call that is not its turn returns None at once. If a run raises, or its process dies and
        its lease ends, the next call runs. A run that takes longer than the period keeps the lock
        until it ends. Raises as Lock.hold() and Hold.keep(); and LockLost if the lock was lost
        during the run, unless raise_on_lost is False.
        """
        seconds = check_period(name, period)
        return functools.partial(once_per, self, name, seconds, merged(options, changes))

    def leader(
        self,
        name: str | bytes,
        elected: Elected,
        lost: Ended | None = None,
        resigned: Ended | None = None,
        margin: float | timedelta | None = None,
        options: LockOptions | None = None,
        **changes: Unpack[LockChanges],
    ) -> Leader:
        """Make a candidate for leadership. Sends nothing until it starts.

        name      The lock's name: of all its candidates, one leads.
        elected   Called with the fence when this candidate leads.
        lost      Called when the leadership is lost; before another candidate can be elected,
                  unless this process was suspended.
        resigned  Called when it ends by resign() or stop(); then the lock is released.
        margin    Seconds before the end of the lease at which the leader steps down if the lease
                  cannot be renewed: time for lost() and for the work to end. By default a quarter
                  of the lease, at most half.
        options   As for lock(); the lease is always renewed, and never None.

        A leader whose elected() raises resigns, and stands again after a pause: 0.1 s, and twice as
        long after each further failure, up to 30 s, less a random part of up to a half. A term that
        ends otherwise, or has lasted for 30 s, makes the next pause short again.
        """
        return Leader(self, name, elected, lost, resigned, margin, merged(options, changes))

    def stats(self) -> Stats:
        """Read this client's counts in this process. Sends nothing."""
        notices = self._notices.get(os.getpid())
        return stats(self._core, self._here(), notices.unconfirmed if notices else 0)

    def ping(self) -> None:
        """Ask every server whether it answers, in a Cluster each master: for a health check.

        With several masters a majority must answer; survey() shows each of them.

        Raises ConnectError, AuthenticationError, ServerError, ProtocolError, ClosedError. Blocks
        for at most one connect_timeout for each server.
        """
        self._core.hf_client_ping(self._here())

    def survey(self, name: str | bytes | None = None) -> list[Finding]:
        """Check the settings of the servers that matter to locks.

        name  A lock's name, to check the user's permissions for its keys.

        Writes nothing. A setting that the user may not read becomes a "note". Raises as ping(), and
        ValueError for a name that no lock can have.
        """
        return survey(self._core, self._here(), None if name is None else encoded("name", name))

    def close(self) -> None:
        """Close the client: release its holds, and end waiting calls with ClosedError.

        Blocks for at most one command_timeout. Before that it waits for the answers of releases
        that did not wait for them: 5 seconds at most, or one second more than a connect_timeout
        that is longer than 4. Afterwards its locks and holds raise ClosedError. A second close does
        nothing.
        """
        self._finish()
        while self._handles:
            _, handle = self._handles.popitem()
            self._core.hf_client_close(handle)

    def _finish(self) -> None:
        """Wait for the answers of releases that did not wait for them."""
        notices = self._notices.get(os.getpid()) if self._handles else None
        if notices is not None:
            notices.finish()

    def _stop(self) -> None:
        """Acquire no more locks, even for waits under way; close() or _abandon() follows."""
        for handle in list(self._handles.values()):
            self._core.hf_client_stop(handle)

    def _abandon(self) -> None:
        """Close without releasing holds, which may still be in use: for finalizers."""
        while self._handles:
            _, handle = self._handles.popitem()
            self._core.hf_client_abandon(handle)

    def __enter__(self) -> Self:
        """Return the client. Raises ClosedError if it is closed."""
        if not self._handles:
            raise ClosedError("the client is closed: connect() opens a new one")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the client."""
        self.close()

    def __del__(self) -> None:
        """Warn. A close would release holds that may still be in use."""
        if getattr(self, "_handles", None):
            what = f"{self!r} was dropped without close()"
            self._abandon()
            _log.warning("%s", what)
            warnings.warn(what, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        """Show whether the client is open, but not the URL, which may contain a password."""
        return f"<{'open' if self._handles else 'closed'} holdfast.Client object at {id(self):#x}>"


def connect(
    url: str,
    *,
    lazy: bool | None = None,
    connect_timeout: float | timedelta | None = None,
    command_timeout: float | timedelta | None = None,
    keepalive: float | timedelta | None = None,
    client_name: str | None = None,
    fence_life: float | timedelta | None = None,
    close_at_exit: bool = True,
    sigterm: bool = False,
    alarm: Rule | None = None,
    on_alarm: Callable[[Alarm], object] | None = None,
    on_trouble: Callable[[Trouble], object] | None = None,
    count_names: bool = False,
    names_max: int | None = None,
) -> Client:
    """Open a client: connect, log in, and check that the server is Redis 6.2 or newer.

    url              `redis://[[user]:password@]host[:port][/database]`,
                     `unix://[[user]:password@]/path/to/socket[?db=database]`,
                     `redis+sentinel://[[user]:password@]host[:port],…/service[/database]`,
                     `redis+cluster://[[user]:password@]host[:port],…`, or
                     `redis+quorum://[[user]:password@]host[:port],…[/database]`;
                     `rediss` instead of `redis` means TLS. docs/connecting.md has the options.
                     Percent-encode the characters special in a URL.
    lazy             True: only check the URL now; the first call connects, within its own timeout.
                     Then a program can start while the server is down. False: connect now, as is
                     the default.
    connect_timeout  Seconds to reach the server and log in; default 2.
    command_timeout  Seconds for the answer to one command; default 2.
    keepalive        Seconds of silence after which the system asks whether the other end is
                     alive (TCP keep-alive); default 15; 0: never.
    client_name      The connections' name in CLIENT LIST: 1 to 63 printable ASCII characters
                     without spaces; default "holdfast".
    fence_life       Seconds for which the server remembers the last fence of a lock that no owner
                     holds; default a day; at least 1. This takes one small key for each lock name.
                     After that time, a fence still grows with the server's clock.
    close_at_exit    Close the client when the interpreter ends, which releases its holds at
                     once. False leaves them to their leases.
    sigterm          Let SIGTERM raise SystemExit in the main thread, with the status 143: blocks
                     are left and release their locks, and the client is closed. A handler that the
                     program has already set stays. By default SIGTERM ends Python at once.
    alarm            (timeouts, seconds): as soon as `timeouts` acquires of one lock have timed out
                     within `seconds`, log a warning and call on_alarm, once in that time for each
                     lock. (10, 60) finds a stuck holder.
    on_alarm         Called with the Alarm, by a thread of the client: keep it short.
    on_trouble       Called with a Trouble, by a thread of the client, when renewals begin to fail,
                     before anything is lost; when they work again; and with each failover. The log
                     gets the same as warnings.
    count_names      Count each lock's name separately in stats().
    names_max        How many names may be counted separately; further names are counted together,
                     so that a name for each order does not fill the memory. Default 100.

    The URL can set the first six of these; an argument given here overrides it.

    Raises ValueError for a wrong URL or option, UnsupportedError, ConnectError,
    AuthenticationError, ServerError, ProtocolError.
    """
    if not isinstance(url, str):
        raise TypeError(f"url must be str, not {type(url).__name__}")  # it may contain a password
    if re.search(r"[\0\ud800-\udfff]", url):
        raise ValueError(
            "the URL must not contain a NUL character, nor bytes that are not UTF-8:"
            " percent-encode those of a password"
        )
    options = _native.hf_client_options()
    options.lazy = switch("lazy", lazy)
    for name, seconds, least in (
        ("connect_timeout", connect_timeout, 1),
        ("command_timeout", command_timeout, 1),
        ("keepalive", keepalive, 0),  # 0: never
        ("fence_life", fence_life, 1000),
    ):
        if seconds is not None:
            milliseconds = duration(name, seconds, least) or _holdfast.HF_NEVER
            setattr(options, f"{name}_ms", milliseconds)
    if client_name is not None:
        if not isinstance(client_name, str):
            raise TypeError(f"client_name must be str, not {client_name!r}")
        if not 1 <= len(client_name) <= 63 or not all("!" <= c <= "~" for c in client_name):
            raise ValueError(
                "client_name must be 1 to 63 printable ASCII characters without spaces,"
                f" not {client_name!r}"
            )
        options.client_name = client_name
    count(options, alarm, on_alarm, count_names, names_max)
    function("on_trouble", on_trouble)
    if flag("sigterm", sigterm):
        check_main_thread()
    client = Client(url, options, flag("close_at_exit", close_at_exit), on_alarm, on_trouble)
    if sigterm:
        exit_on_sigterm()
    return client


def count(
    options: _native.hf_client_options,
    alarm: Rule | None,
    on_alarm: Callable[[Alarm], object] | None,
    count_names: bool,
    names_max: int | None,
) -> None:
    """Check the options of the client's counts, and set them."""
    function("on_alarm", on_alarm)
    if alarm is not None:
        options.alarm_timeouts, options.alarm_window_ms = native(alarm)
    options.count_names = (
        _holdfast.HF_ON if flag("count_names", count_names) else _holdfast.HF_DEFAULT
    )
    if names_max is not None:
        options.names_max = whole("names_max", names_max, 1, 10000)
