"""Processes: signals, forks and ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import multiprocessing
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
from conftest import PATIENT, Server, Thread, queue, until
from holdfast._caller import Inside


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run(script: str, *arguments: str) -> str:
    with python(script, *arguments) as process:
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return said


# --------------------------------------------------------------------- Signals


@pytest.fixture
def alarm() -> Iterator[list[int]]:
    """Handle SIGUSR1, which changes nothing."""
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    yield heard
    signal.signal(signal.SIGUSR1, before)


class Sender:
    """Signals the main thread, these numbers of seconds after go(), one after another."""

    def __init__(self, number: int, *after: float) -> None:
        self._go = threading.Event()
        self.thread = Thread(lambda: self._work(number, after))

    def _work(self, number: int, after: tuple[float, ...]) -> None:
        self._go.wait(20)
        for seconds in after:
            time.sleep(seconds)
            signal.pthread_kill(threading.main_thread().ident or 0, number)

    def go(self) -> None:
        self._go.set()


@pytest.mark.parametrize("seconds", [-1, 30])
def test_ctrl_c_ends_a_wait(seconds: float, lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    def interrupt() -> None:
        until(lambda: stranger.inspect().waiters)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with stranger:
        with pytest.raises(KeyboardInterrupt):
            Thread(interrupt)
            lock.acquire(timeout=seconds)
        assert not lock.owned()
        assert lock.inspect().waiters == 0
    assert lock.acquire(blocking=False) is True
    lock.release()


def test_ctrl_c_is_never_missed(lock: holdfast.Lock, stranger: holdfast.Lock) -> None:
    with stranger:
        for number in range(100):
            sender = Sender(signal.SIGINT, number % 50 * 0.00004)
            with pytest.raises(KeyboardInterrupt):
                sender.go()
                lock.acquire()
            sender.thread.finish()


def test_who_is_interrupted_does_not_hold(lock: holdfast.Lock) -> None:
    outcomes: set[bool] = set()
    for number in range(3000):
        if number >= 300 and outcomes == {True, False}:
            break
        sender = Sender(signal.SIGINT, number % 100 * 0.00001)
        held = False
        with pytest.raises(KeyboardInterrupt):
            sender.go()
            held = lock.acquire()
            while True:  # for a signal may also arrive just before a sleep
                time.sleep(0.01)
        assert lock.count() == held
        assert lock.locked() == held
        outcomes.add(held)
        if held:
            lock.release()
    assert outcomes == {True, False}  # else the race was never tried


def test_who_is_interrupted_does_not_hold_what_it_enters(lock: holdfast.Lock) -> None:
    outcomes: set[bool] = set()
    for number in range(3000):
        if number >= 300 and outcomes == {True, False}:
            break
        sender = Sender(signal.SIGINT, number % 100 * 0.00001)
        inside = False
        with pytest.raises(KeyboardInterrupt):
            sender.go()
            with lock:
                inside = True
                while True:
                    time.sleep(0.01)
        assert lock.count() == 0
        outcomes.add(inside)
    assert outcomes == {True, False}


@pytest.mark.parametrize("several", [False, True])
def test_what_fails_in_an_enter_leaves_nothing_held(
    client: holdfast.Client, name: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Inside, "enter", interrupted)
    made: Any = client.locks_all(name, name + "2") if several else client.lock(name)
    with pytest.raises(KeyboardInterrupt), made:
        raise AssertionError("inside")
    assert not client.lock(name).locked()
    assert not client.lock(name + "2").locked()


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_a_signal_as_a_block_begins_to_end_leaves_nothing_held(
    client: holdfast.Client,
    name: str,
    several: bool,
    before: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave = Inside.leave

    def interrupted(inside: Inside, *given: Any) -> bytes | None:
        monkeypatch.setattr(Inside, "leave", leave)
        if not before:
            leave(inside, *given)
        raise KeyboardInterrupt

    lock = client.lock(name)
    made: Any = client.locks_all(name, name + "2") if several else lock
    monkeypatch.setattr(Inside, "leave", interrupted)
    with lock.hold():
        with pytest.raises(KeyboardInterrupt), made:
            pass
        assert (lock.count(), client.lock(name + "2").count()) == (0, 0)
    assert not lock.locked()
    assert not client.lock(name + "2").locked()


class Limit(Exception):
    """Raised as Celery's handler raises in a task that takes too long."""


def interrupting(
    begins: str,
    number: int,
    reached: set[int],
    raises: type[BaseException] = KeyboardInterrupt,
    returns: bool = True,
    ours: bool = False,
) -> Any:
    """Make a profile function that raises at the given call, counted from a call with such a name.

    returns  It only counts until that call returns.
    ours     It counts only calls of holdfast, not of asyncio, say.
    """
    calls: list[Any] = []

    def profile(frame: Any, event: str, _: object) -> None:
        if frame.f_code.co_name == "__del__":
            return  # what it raises is only reported
        if ours and not frame.f_globals.get("__name__", "").startswith("holdfast."):
            return
        if event == "return" and returns and frame in calls[:1]:
            sys.setprofile(None)
        elif event == "call" and (calls or frame.f_code.co_name == begins):
            calls.append(frame)
            if len(calls) == number:
                reached.add(number)
                raise raises

    return profile


@pytest.fixture
def ungathered() -> Iterator[None]:
    """Collect no garbage: its callbacks would count, and what they raise cannot be caught."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("ungathered")
@pytest.mark.parametrize("several", [False, True])
def test_a_signal_at_any_call_of_an_enter_leaves_nothing_held(
    client: holdfast.Client, name: str, several: bool
) -> None:
    names = [name, name + "2"] if several else [name]
    made: Any = client.locks_all(*names) if several else client.lock(name)
    reached: set[int] = set()
    for number in range(1, 200):
        with contextlib.suppress(KeyboardInterrupt):
            sys.setprofile(interrupting("__enter__", number, reached))
            with made:
                pass
        sys.setprofile(None)
        assert [client.lock(each).count() for each in names] == [0] * len(names), number
        if number not in reached:
            break
    assert len(reached) > 3


@pytest.mark.usefixtures("ungathered")
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_a_signal_at_any_call_of_the_end_of_a_block_leaves_nothing_held(
    client: holdfast.Client,
    name: str,
    several: bool,
    later: bool,
) -> None:
    names = [name, name + "2"] if several else [name]
    options = holdfast.LockOptions(release="later" if later else "wait")
    make: Any = client.locks_all if several else client.lock
    reached: set[int] = set()
    for number in range(2, 200):
        with contextlib.suppress(KeyboardInterrupt):  # noqa: SIM117
            with make(*names, options=options):
                sys.setprofile(interrupting("leave", number, reached))
        sys.setprofile(None)
        assert [client.lock(each).count() for each in names] == [0] * len(names), number
        if number not in reached:
            break
    assert len(reached) > 3


@pytest.mark.usefixtures("ungathered")
@pytest.mark.parametrize("ends", [False, True], ids=["begin", "end"])
@pytest.mark.parametrize("several", [False, True])
def test_a_signal_at_any_call_of_the_block_of_a_task_leaves_nothing_held(
    client: holdfast.Client, name: str, several: bool, ends: bool, raw: redis.Redis
) -> None:
    names = [name, name + "2"] if several else [name]
    options = holdfast.LockOptions(lease=60, on_lost=lambda _: None)
    reached: set[int] = set()

    async def main() -> None:
        make: Any = client.aio.locks_all if several else client.aio.lock
        made = make(*names, options=options)
        for number in range(2 if ends else 1, 200):
            with contextlib.suppress(Limit):
                if not ends:
                    sys.setprofile(interrupting("_take", number, reached, Limit, returns=False))
                async with made:
                    sys.setprofile(interrupting("__aexit__", number, reached, Limit))
                    if not ends:
                        sys.setprofile(None)
            sys.setprofile(None)
            assert made.count() == 0, number
            if number not in reached:
                break

    asyncio.run(main())
    until(lambda: not raw.exists(*names))
    assert len(reached) > 3


@pytest.mark.usefixtures("ungathered")
def test_a_signal_at_any_call_that_hands_a_completion_on_leaves_no_task_waiting(
    client: holdfast.Client, name: str
) -> None:
    lock = client.aio.lock(name)
    reached: set[int] = set()
    told: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: told.append(type(context["exception"]))
        )
        for number in range(1, 100):
            for work in (lock.acquire, lock.release):
                sys.setprofile(interrupting("_settle", number, reached, Limit, ours=True))
                await work()
                sys.setprofile(None)
            assert not await lock.locked()
            if number not in reached:
                break

    asyncio.run(asyncio.wait_for(main(), 20))
    assert told[:3] == [Limit] * 3
    assert set(told) == {Limit}


@pytest.mark.parametrize("most", [False, True])
def test_a_turn_of_a_task_that_is_interrupted_as_it_begins_is_given_back(
    client: holdfast.Client,
    name: str,
    raw: redis.Redis,
    most: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*given: object) -> None:
        raise Limit

    async def main() -> None:
        with pytest.raises(Limit):
            await client.aio.once_begin(name, ttl=60, at_most_once=most, lease=60)

    monkeypatch.setattr(holdfast.AsyncLock, "_take", interrupted)
    asyncio.run(main())
    until(lambda: not raw.exists(name))


def test_a_signal_whose_handler_returns_leaves_the_wait_its_place_in_the_queue(
    client: holdfast.Client, lock: holdfast.Lock, name: str, raw: redis.Redis
) -> None:
    heard: list[int] = []
    places = []
    turns = []

    def second() -> None:
        with lock:
            turns.append("second")

    def conduct() -> None:
        until(lambda: waiting() == 1)
        places.append(raw.zrange(queue(name), 0, 0, withscores=True))
        behind = Thread(second)
        until(lambda: waiting() == 2)
        until(lambda: len(heard) > 30)
        places.append(raw.zrange(queue(name), 0, 0, withscores=True))
        holder.release()
        behind.finish()

    def waiting() -> int:
        return client.lock(name).inspect().waiters

    before = signal.signal(signal.SIGALRM, lambda number, _: heard.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        holder = client.lock(name, owner="holder").hold()
        conductor = Thread(conduct)
        with lock:
            turns.append("first")
        conductor.finish()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert places[0] == places[1]
    assert turns == ["first", "second"]


def test_a_signal_does_not_disturb_what_cannot_wait(alarm: list[int], lock: holdfast.Lock) -> None:
    sender = Sender(signal.SIGUSR1, *[0.0002] * 1000)
    sender.go()
    while sender.thread.is_alive():
        with lock as hold:
            hold.check()
            lock.inspect()
    assert alarm


# ----------------------------------------------------------------------- Forks


def test_a_forked_child_has_a_client_of_its_own(server: Server, name: str) -> None:
    said = run(
        """
        import os, sys, holdfast

        client = holdfast.connect(sys.argv[1])
        lock = client.lock(sys.argv[2], owner=None)
        free = client.lock(sys.argv[2] + ":free")
        with lock as hold, lock.hold() as loose:
            child = os.fork()
            if child == 0:
                assert not lock.owned() and lock.count() == 0
                assert lock.locked()
                assert lock.acquire(blocking=False) is False
                assert lock.acquire(timeout=0.05) is False
                for call in hold.release, hold.renew, loose.release, loose.check:
                    try:
                        call()
                    except holdfast.ForkedError:
                        pass
                    else:
                        raise AssertionError(call)
                assert not hold.valid and not loose.valid and loose.remaining == 0
                try:
                    lock.release()
                except holdfast.LockNotOwnedError:
                    pass
                with free, free:
                    assert free.count() == 2
                with client.lock(sys.argv[2] + ":new"):
                    pass
                client.close()
                try:
                    client.lock("another")
                except holdfast.ClosedError:
                    pass
                else:
                    raise AssertionError("closed, but not")
                del hold, loose
                print("child", flush=True)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            hold.check()
            loose.check()
            assert lock.inspect().count == 2
        assert not lock.locked()
        client.close()
        child = os.fork()
        if child == 0:
            for call in lock.acquire, lock.inspect, lambda: client.lock("x"):
                try:
                    call()
                except holdfast.ClosedError:
                    pass
                else:
                    raise AssertionError(call)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("parent")
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "child\nparent\n"


def test_a_block_of_the_hold_of_a_parent_does_not_run_in_its_child(
    server: Server, name: str
) -> None:
    said = run(
        """
        import asyncio, os, sys, holdfast

        client = holdfast.connect(sys.argv[1])
        lock = client.lock(sys.argv[2], raise_on_lost=False)
        hold, holds = lock.hold(), client.locks_all(sys.argv[2] + "2").hold()

        async def acquire():
            return await client.aio.lock(sys.argv[2] + "3").hold()

        async def enter():
            async with task:
                print("the body of a task ran", flush=True)

        def enter_one(block):
            with block:
                print("the body ran", flush=True)

        task = asyncio.run(acquire())
        child = os.fork()
        if child == 0:
            calls = [lambda each=each: enter_one(each) for each in (hold, holds)]
            for call in *calls, lambda: asyncio.run(enter()):
                try:
                    call()
                except holdfast.LockError as failed:
                    print(type(failed).__name__, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        client.close()
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "ForkedError\n" * 3


def test_any_lock_of_before_a_fork_finds_the_holds_of_the_child(server: Server, name: str) -> None:
    said = run(
        """
        import asyncio, os, sys, threading, holdfast

        client = holdfast.connect(sys.argv[1])
        one, other = client.lock(sys.argv[2]), client.lock(sys.argv[2])
        several = client.locks_all(sys.argv[2])
        task = client.aio.lock(sys.argv[2] + "2")

        async def owns():
            await client.aio.lock(sys.argv[2] + "2").acquire()
            return task.owned()

        with one:
            pass
        child = os.fork()
        if child == 0:
            print(other.owned(), threading.active_count(), flush=True)
            one.acquire()
            print(other.owned(), several.count(), "count=1" in repr(other), flush=True)
            print(asyncio.run(owns()), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "False 1\nTrue 1 True\nTrue\n"


def test_a_forked_child_hears_of_trouble_from_its_first_acquire_on(
    server: Server, name: str
) -> None:
    said = run(
        """
        import os, sys, threading, holdfast

        def hears():
            return "holdfast-notices" in [thread.name for thread in threading.enumerate()]

        client = holdfast.connect(sys.argv[1])
        lock = client.lock(sys.argv[2])
        with lock:
            assert hears()
        child = os.fork()
        if child == 0:
            heard = hears()
            with lock:
                print(heard, hears(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        """,
        server.tcp,
        name,
    )
    assert said == "False True\n"


def test_the_client_of_a_child_connects_when_a_call_needs_it() -> None:
    said = run(
        """
        import os, sys, holdfast
        sys.path.insert(0, sys.argv[1])
        import fake
        with fake.server(fake.redis_of_version(b"7.0.15")) as url:
            client = holdfast.connect(url)
        child = os.fork()  # and the server is away
        if child == 0:
            ends = 1
            try:
                assert client.stats().acquired == 0
                lock = client.lock("stock")
                assert not lock.owned()
                lock.acquire(timeout=0.01)
            except holdfast.ConnectError as failed:
                ends = 0 if "lock" in dir() else 2
            os._exit(ends)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        str(Path(__file__).parent),
    )
    assert said == "0\n"


def test_threads_of_a_forked_child_share_its_client(
    server: Server, name: str, raw: redis.Redis
) -> None:
    said = run(
        """
        import os, sys, threading, holdfast

        client = holdfast.connect(sys.argv[1])
        lock = client.lock(sys.argv[2])
        with lock:
            pass
        child = os.fork()
        if child == 0:
            together = threading.Barrier(8)
            def work():
                together.wait(10)
                for _ in range(20):
                    with lock:
                        client.lock(sys.argv[2] + "2")
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(len(client._handles), flush=True)  # the parent's, and one
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        with lock:
            pass
        client.close()
        sys.exit(status != 0)
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "2\n"


def test_a_forked_child_holds_locks_of_before_and_after_the_fork_together(
    server: Server, name: str
) -> None:
    said = run(
        """
        import asyncio, os, sys, holdfast

        client = holdfast.connect(sys.argv[1])
        old, new = sys.argv[2], sys.argv[2] + ":new"
        lock, task_lock = client.lock(old), client.aio.lock(old)
        both = client.locks_all(new, lock)

        async def in_tasks():
            async with client.aio.locks_all(new, task_lock) as holds:
                print(sorted(holds.fences) == [old, new], flush=True)

        def in_child(work):
            child = os.fork()
            if child == 0:
                work()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0

        def mixed():
            with client.locks_all(new, lock) as holds:
                print(sorted(holds.fences) == [old, new], flush=True)

        def after_the_lock_alone():
            with lock:
                pass
            with both as holds:
                print(sorted(holds.fences) == [old, new], flush=True)

        in_child(mixed)
        in_child(lambda: asyncio.run(in_tasks()))
        in_child(after_the_lock_alone)
        client.close()
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "True\n" * 3


def test_threads_of_a_forked_child_that_use_a_lock_first_share_its_handle(
    server: Server, name: str
) -> None:
    said = run(
        """
        import os, sys, threading, holdfast

        client = holdfast.connect(sys.argv[1])
        lock = client.lock(sys.argv[2], reentrant=False)
        child = os.fork()
        if child == 0:
            together, acquired = threading.Barrier(2), threading.Event()
            opens = holdfast.Lock._open

            def open_together(lock):
                together.wait(20)  # each thread finds no handle of this process
                if threading.current_thread() is not first:
                    acquired.wait(20)
                return opens(lock)

            def take():
                lock.acquire()
                acquired.set()
                second.join(20)
                lock.release()
                print("released", flush=True)

            holdfast.Lock._open = open_together
            first = threading.Thread(target=take)
            second = threading.Thread(target=lock.acquire, kwargs={"timeout": 0.05})
            for thread in (first, second): thread.start()
            for thread in (first, second): thread.join(30)
            print(lock.locked(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        client.close()
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "released\nFalse\n"


def test_a_close_in_a_forked_child_that_another_thread_crosses_leaves_no_client_open(
    server: Server, name: str
) -> None:
    said = run(
        """
        import os, sys, holdfast

        client = holdfast.connect(sys.argv[1])
        child = os.fork()
        if child == 0:
            opened = client._open()
            def open_slowly():
                client.close()  # as another thread may, while this one connects
                return opened
            client._open = open_slowly
            try:
                client.lock(sys.argv[2])
            except holdfast.ClosedError:
                print(client, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        client.close()
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said.startswith("<closed ")


def lock_in_child(client: holdfast.Client, name: str, url: str) -> None:
    """Use a client of the parent, or one of its own, as a child of multiprocessing does."""
    lock = client.lock(name)
    assert not lock.owned()
    assert lock.acquire(timeout=0.05) is False
    with client.lock(name + ":child") as hold:
        hold.check()
        assert hold.lost.wait(0.01) is False


def connect_in_child(name: str, url: str) -> None:
    with holdfast.connect(url) as client:
        lock_in_child(client, name, url)


def as_task(client: holdfast.Client, name: str) -> None:
    async def main() -> None:
        assert await client.aio.lock(name).acquire(timeout=0.05) is False
        async with client.aio.lock(name + ":task") as hold:
            await hold.check()

    asyncio.run(main())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing_neither_renews_nor_releases_what_the_parent_holds(
    method: str, client: holdfast.Client, server: Server, name: str
) -> None:
    context: Any = multiprocessing.get_context(method)
    lock = client.lock(name)
    with lock as hold:
        assert hold.lost.wait(0.01) is False  # keeper, thread, descriptor: all could be inherited
        as_task(client, name)
        works = [(connect_in_child, (name, server.tcp))]
        if method == "fork":
            works += [(lock_in_child, (client, name, server.tcp)), (as_task, (client, name))]  # type: ignore[list-item]
        for work, arguments in works:
            child = context.Process(target=work, args=arguments)
            child.start()
            child.join(20)
            assert child.exitcode == 0
        hold.renew()
    assert not lock.locked()


def test_a_fork_out_of_a_thread_has_its_signals_handled(server: Server, name: str) -> None:
    said = run(
        """
        import os, signal, sys, threading, holdfast

        client = holdfast.connect(sys.argv[1])

        def fork():
            child = os.fork()
            if child:
                return os.waitpid(child, 0)
            lock = client.lock(sys.argv[2])
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                lock.acquire()
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            os._exit(0)

        def interrupt(number, frame):
            raise KeyboardInterrupt

        signal.signal(signal.SIGALRM, interrupt)
        with client.lock(sys.argv[2]):
            forking = threading.Thread(target=fork)
            forking.start()
            forking.join()
        client.close()
        """,
        server.tcp + PATIENT,
        name,
    )
    assert said == "interrupted\n"


# ------------------------------------------------------------------------ Ends


def test_an_exit_with_everything_under_way_is_quick_and_clean(
    server: Server, name: str, raw: redis.Redis
) -> None:
    script = """
        import asyncio, sys, threading, time, holdfast

        client = holdfast.connect(sys.argv[1])
        hold = client.lock(sys.argv[2], lease=60, renew=True, on_lost=print).hold()
        client.lock(sys.argv[2] + ":kept", lease=60, renew=True).acquire()

        def run(work, *arguments):
            threading.Thread(target=work, args=arguments, daemon=True).start()

        async def wait():
            await asyncio.gather(*[client.aio.lock(sys.argv[2]).acquire() for _ in range(10)])

        for _ in range(5):
            run(client.lock(sys.argv[2]).acquire)
        run(hold.lost.wait)
        run(asyncio.run, wait())
        while client.lock(sys.argv[2]).inspect().waiters < 15:
            time.sleep(0.01)
        print("ending", flush=True)
        if sys.argv[3] == "raise":
            raise SystemExit("by an exception")
    """
    for how in ("return", "raise"):
        with python(script, server.tcp + PATIENT, name, how) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ending\n"
            assert process.wait(20) == (how == "raise")
            assert not raw.exists(name + ":kept")
        assert client_takes(server, name)


def client_takes(server: Server, name: str) -> bool:
    """Those that waited are gone, so the lock is free when none of them claims it."""
    with holdfast.connect(server.tcp) as client:
        lock = client.lock(name)
        taken = lock.acquire(timeout=20)
        lock.release()
        return taken
