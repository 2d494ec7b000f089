"""Programs that end: their clients are closed, and nothing is printed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis

from conftest import PATIENT, Server

# Holds that no code renews or releases within a minute.
SETUP = """
import sys, holdfast
url, name = sys.argv[1:3]
client = holdfast.connect(url, close_at_exit=CLOSES)
lock = client.lock(name, lease=60)
"""


def start(script: str, server: Server, name: str, closes: bool = True) -> subprocess.Popen[str]:
    text = SETUP.replace("CLOSES", str(closes)) + textwrap.dedent(script)
    command = [sys.executable, "-W", "error", "-c", text, server.tcp + PATIENT, name]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    with process:
        said, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (0, "")
    return said


ENDS = {
    "kept": "lock.acquire()",
    "loose": "hold = lock.hold()",
    "exit": "lock.acquire(); sys.exit(0)",
    "thread": """
        import threading
        threading.Thread(target=lambda: client.lock(name, owner="it", lease=60).acquire()).start()
    """,
    "task": """
        import asyncio
        async def main():
            await client.aio.lock(name, lease=60).acquire()
        asyncio.run(main())
    """,
    "waiting": """
        import threading, time
        lock.acquire()
        def wait():
            while True:
                client.lock(name, owner="other").acquire()
        threading.Thread(target=wait, daemon=True).start()
        while not lock.inspect().waiters:
            time.sleep(0.002)
    """,
    "leading": """
        import threading, time
        begun = threading.Event()
        def lead(fence):
            begun.set()
            while leader.is_leader:
                time.sleep(0.002)
        leader = client.leader(name, lead, lease=60)
        leader.start()
        begun.wait()
    """,
    "late": """
        import atexit
        lock.acquire()
        def last():
            assert client.lock(name).inspect().held  # this handler came later, and runs before
        atexit.register(last)
    """,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_forgotten_client_releases_its_holds_when_the_program_ends(
    end: str, server: Server, name: str, raw: redis.Redis
) -> None:
    finish(start(ENDS[end], server, name))
    assert not raw.exists(name)


def test_no_thread_gets_at_the_end_what_another_client_of_the_program_releases(
    server: Server, name: str, raw: redis.Redis
) -> None:
    script = """
        import threading
        others = [holdfast.connect(url) for _ in range(5)]
        def wait(other):
            try:
                other.lock(name, lease=60, owner="other").acquire()
                print("got it", flush=True)
            except holdfast.ClosedError:
                pass
        holds = [other.lock(f"{name}:{n}", lease=60).hold() for n, other in enumerate(others)]
        lock.acquire()
        for other in others:
            threading.Thread(target=wait, args=(other,), daemon=True).start()
        while lock.inspect().waiters < 5:
            pass
    """
    for closes in (True, False):
        assert finish(start(script, server, name, closes)) == ""
        assert bool(raw.exists(name)) is not closes
        assert not raw.exists(f"{name}:0", f"{name}:4")


def test_a_program_may_leave_its_holds_to_their_leases(
    server: Server, name: str, raw: redis.Redis
) -> None:
    finish(start("lock.acquire()", server, name, closes=False))
    assert raw.exists(name)


def test_a_handled_sigterm_releases(server: Server, name: str, raw: redis.Redis) -> None:
    script = """
        import signal
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        lock.acquire()
        with client.lock(name + ":block", lease=60):
            print("held", flush=True)
            signal.pause()
    """
    process = start(script, server, name)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGTERM)
    finish(process)
    assert not raw.exists(name, name + ":block")


@pytest.mark.parametrize(
    "wait", ["signal.pause()", 'client.lock(name + ":block", owner="x").acquire()', "loop()"]
)
def test_a_program_that_asked_for_it_releases_at_sigterm(
    wait: str, server: Server, name: str, raw: redis.Redis
) -> None:
    script = f"""
        import asyncio, signal
        async def main():
            async with client.aio.lock(name + ":task", lease=60):
                print("held", flush=True)
                await asyncio.sleep(60)
        def loop():
            asyncio.run(main())
        client = holdfast.connect(url, sigterm=True)
        client.lock(name, lease=60).acquire()
        try:
            with client.lock(name + ":block", lease=60):
                print("held", flush=True)
                {wait}
        finally:
            print("left", client.lock(name).locked(), client.lock(name + ":block").locked())
    """
    process = start(script, server, name)
    assert process.stdout is not None
    for _ in range(1 + ("loop" in wait)):
        assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGTERM)
    with process:
        said, complaints = process.communicate(timeout=20)
    assert (process.returncode, complaints) == (143, "")
    assert said == "left True False\n"
    assert not raw.exists(name, name + ":block", name + ":task")


def test_a_handler_of_the_program_stays(server: Server, name: str) -> None:
    script = """
        import signal, threading
        mine = lambda number, frame: sys.exit(7)
        signal.signal(signal.SIGTERM, mine)
        client = holdfast.connect(url, sigterm=True)
        assert signal.getsignal(signal.SIGTERM) is mine
        def elsewhere():
            try:
                holdfast.connect(url, sigterm=True)
            except ValueError as refused:
                assert "main thread" in str(refused)
                print("refused")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    """
    assert finish(start(script, server, name)) == "refused\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_of_multiprocessing_releases_when_it_ends(
    method: str, server: Server, name: str, raw: redis.Redis, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    work = """
import multiprocessing

def work():
    assert client.lock(name, lease=60).acquire(blocking=False)

if __name__ == "__main__":
    parent = client.lock(name + ":parent", lease=60)
    parent.acquire()
    child = multiprocessing.get_context(sys.argv[3]).Process(target=work)
    child.start()
    child.join()
    assert child.exitcode == 0 and parent.locked() and not lock.locked()
"""
    program.write_text(SETUP.replace("CLOSES", "True") + work)
    command = [sys.executable, str(program), server.tcp + PATIENT, name, method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=40)
    assert (done.returncode, done.stderr) == (0, "")
    assert not raw.exists(name + ":parent")


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize("waits", ["hold.lost.wait()", "leader.stop()"])
def test_a_thread_that_waits_for_a_loss_or_a_leader_ends_with_its_child_of_multiprocessing(
    waits: str, closes: bool, server: Server, name: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    work = """
import multiprocessing, threading

def wait():
    hold.lost.wait()
    WAITS

def work():
    global hold, leader
    elected = threading.Event()
    leader = client.leader(name + ":leader", lambda fence: elected.set())
    leader.start()
    elected.wait()
    hold = lock.hold()
    hold._loose = False
    threading.Thread(target=wait).start()
    while not client._notices_here()._waiting:
        pass

if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(30)
    print(child.exitcode)
    child.kill()
"""
    work = work.replace("WAITS", waits)
    program.write_text(SETUP.replace("CLOSES", str(closes)) + work)
    command = [sys.executable, str(program), server.tcp + PATIENT, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_forked_child_that_exits_leaves_the_parent_s_holds(
    server: Server, name: str, raw: redis.Redis
) -> None:
    script = """
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        lock.acquire()
        if os.fork() == 0:
            sys.exit(0)
        assert os.wait()[1] == 0
        assert lock.owned() and lock.locked()
    """
    finish(start(script, server, name))
