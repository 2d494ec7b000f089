"""The statements of docs/guides/gevent.md."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from conftest import PATIENT, Server

pytest.importorskip("gevent")  # not yet available for a free-threaded Python

SETUP = """
import gevent.monkey
gevent.monkey.patch_all()
import sys, threading, time
import gevent
import holdfast

url, name = sys.argv[1:]
client = holdfast.connect(url)
lock = client.lock(name, reentrant=False)
pool = gevent.get_hub().threadpool
ticks = 0

def tick():
    global ticks
    while True:
        gevent.sleep(0.002)
        ticks += 1

gevent.spawn(tick)
"""


def run(script: str, server: Server, name: str) -> None:
    text = SETUP + textwrap.dedent(script) + "\nclient.close()\n"
    command = [sys.executable, "-X", "faulthandler", "-c", text, server.tcp + PATIENT, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert done.returncode == 0, done.stderr


def test_greenlets_go_on_while_one_waits_in_the_pool(server: Server, name: str) -> None:
    run(
        """
        holder = lock.hold()
        waiting = gevent.spawn(lambda: pool.apply(lock.hold, (20,)))
        before = ticks
        while lock.inspect().waiters < 1 or ticks < before + 30:
            gevent.sleep(0.01)
        assert not waiting.ready()
        holder.release()
        waiting.get(timeout=10).release()
        """,
        server,
        name,
    )


def test_greenlets_exclude_each_other_and_none_waits_for_ever(server: Server, name: str) -> None:
    run(
        """
        inside = 0
        fences = []

        def work():
            global inside
            with pool.apply(lock.hold, (30,)) as hold:
                inside += 1
                assert inside == 1
                gevent.sleep(0.002)
                fences.append(hold.fence)
                inside -= 1

        workers = [gevent.spawn(work) for _ in range(40)]
        gevent.joinall(workers, timeout=30, raise_error=True)
        assert len(fences) == 40 and fences == sorted(fences)
        assert lock.inspect().waiters == 0 and not lock.locked()
        """,
        server,
        name,
    )


def test_each_greenlet_and_each_job_of_the_pool_is_an_owner(server: Server, name: str) -> None:
    run(
        """
        nests = client.lock(name)

        def work():
            with nests as hold, nests as inner:
                assert hold.fence == inner.fence and nests.count() == 2
                gevent.sleep(0.01)
                return hold.fence

        def refused(call, *arguments):
            try:
                call(*arguments)
            except RuntimeError as error:
                return str(error)

        nests.acquire()  # the main greenlet: the thread is the owner
        assert not gevent.spawn(lambda: nests.acquire(blocking=False)).get()
        assert "threadpool" in gevent.spawn(refused, work).get()
        assert not pool.apply(lambda: nests.acquire(timeout=0.01))
        nests.release()
        assert gevent.spawn(work).get() < pool.apply(work)

        fences = [gevent.spawn(lambda: pool.apply(work)) for _ in range(8)]
        assert len({each.get() for each in fences}) == 8

        for whole in (gevent.spawn(nests.acquire, False).get, lambda: pool.apply(nests.acquire)):
            assert "hold()" in refused(whole)
        holding = gevent.spawn(nests.hold).get()
        assert not nests.acquire(blocking=False)
        holding.release()

        assert gevent.spawn(lock.acquire, False).get()
        assert not gevent.spawn(lock.acquire, False).get()
        lock.release()
        """,
        server,
        name,
    )


def test_a_job_of_the_pool_does_not_inherit(server: Server, name: str) -> None:
    run(
        """
        nests = client.lock(name)
        small = gevent.get_hub().threadpool_class(1)
        assert small.apply(lambda: nests.acquire(timeout=0.01))
        assert not small.apply(lambda: nests.acquire(timeout=0.01))
        assert small.apply(lambda: client.lock(name + "2").acquire() and nests.count()) == 0
        """,
        server,
        name,
    )


def test_a_wait_in_the_hub_s_thread_is_refused(server: Server, name: str) -> None:
    run(
        """
        holder = lock.hold(30)  # it is free: no wait
        with client.lock(name + "2"):
            pass

        def enter():
            with lock:
                pass

        for wait in (enter, lock.acquire, lambda: lock.acquire(timeout=0.3), lambda: lock.hold(5)):
            for call in (wait, lambda: gevent.spawn(wait).get()):
                try:
                    call()
                except RuntimeError as error:
                    assert "threadpool" in str(error) and name in str(error), error
                else:
                    raise AssertionError(wait)
        assert lock.acquire(blocking=False) is False
        assert pool.apply(lambda: lock.acquire(timeout=0.05)) is False
        holder.release()
        assert lock.inspect().waiters == 0
        """,
        server,
        name,
    )


def test_losses_are_told_to_a_patched_program(server: Server, name: str) -> None:
    run(
        """
        told = threading.Event()
        hold = client.lock(name, lease=0.3, renew=False, on_lost=lambda hold: told.set()).hold()
        before = ticks
        assert told.wait(10)
        assert hold.lost.wait(10) and hold.lost.cause == "expired"
        assert ticks > before
        """,
        server,
        name,
    )


def test_losses_are_told_though_the_first_acquire_is_a_job(server: Server, name: str) -> None:
    run(
        """
        from gevent.threadpool import ThreadPoolExecutor

        told = []
        brief = client.lock(name, lease=0.3, renew=False, on_lost=told.append)
        with ThreadPoolExecutor(1) as jobs:  # the thread ends, and with it its greenlets
            hold = jobs.submit(brief.hold).result()
        while not told:
            gevent.sleep(0.01)
        assert told == [hold] and hold.lost.cause == "expired"
        """,
        server,
        name,
    )


@pytest.mark.parametrize("held", [True, False])
def test_a_killed_wait_gets_nothing_for_long(server: Server, name: str, held: bool) -> None:
    run(
        f"""
        short = client.lock(name, lease=3, renew=False, reentrant=False)
        holder = short.hold()
        waiting = gevent.spawn(lambda: pool.apply(short.hold, (2,)))
        while short.inspect().waiters < 1:
            gevent.sleep(0.01)
        waiting.kill()
        {"gevent.sleep(0)" if held else "holder.release()"}
        hold = pool.apply(short.hold, (20,))
        hold.release()
        """,
        server,
        name,
    )
