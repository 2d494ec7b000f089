"""holdfast.contrib.rq with real workers, and holdfast.contrib.apscheduler."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, refused, until
from holdfast.contrib import _jobs, apscheduler
from running import needs, programs

pytestmark = pytest.mark.timeout(240)

# ---------------------------------------------------------------------------- RQ

JOBS = '''
import asyncio
import contextlib
import os

import holdfast
import redis
import rq
from holdfast.contrib.rq import get_current_hold, locked

client = holdfast.connect(os.environ["HOLDFAST_URL"])  # before the fork
store = redis.Redis.from_url(os.environ["HOLDFAST_URL"])


def wait(name):
    """Wait while the test holds that lock."""
    with client.lock(f"wait:{name}", reentrant=False).hold():
        pass


@locked(client, "{name}", interval=1)
def work(name):
    store.rpush(f"{name}:runs", os.getpid())
    wait(name)
    return get_current_hold().fence, client.lock(name).locked()


@locked(client, "{name}", lease=60, renew=True)
def limited(name):
    wait(name)


@locked(client, "{name}", interval=1, max_retries=1)
def gives_up(name):
    raise AssertionError


@locked(client, "{name}")
async def coroutine(name):
    await asyncio.sleep(0)
    return client.lock(name).locked()


@locked(client, "{name}", once_per=3600, interval=1, lease=60, renew=True)
def once(name, fail=0):
    run = store.rpush(f"{name}:runs", os.getpid())
    wait(name)
    if run <= fail:
        raise KeyError(name)
    return "done"


@locked(client, "{name}", once_per=3600)
def asks_for_a_retry(name):
    first = store.incr(f"{name}:tries") == 1
    return rq.Retry(max=1, interval=1) if first else "done"


@locked(client, "{name}:period", once_per=3600)
@locked(client, "{name}:inner", interval=1)
def stacked(name):
    return "done"


def calls(name):
    try:
        return work(name)
    except holdfast.LockTimeout as busy:
        return str(busy)
'''


@pytest.fixture(scope="module")
def workers(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[subprocess.Popen[str]]]:
    """Start two workers; the folder of their jobs is in this process's path."""
    folder = tmp_path_factory.mktemp("rq")
    folder.joinpath("contrib_jobs.py").write_text(JOBS)
    command = ["-m", "rq.cli", "worker", "--with-scheduler", "--url", server.tcp]
    with programs(folder, HOLDFAST_URL=server.tcp, PYTHONPATH=str(folder)) as start:
        yield [start(*command, "--path", str(folder), "--quiet") for _ in range(2)]


@pytest.fixture
def send(workers: list[subprocess.Popen[str]], raw: redis.Redis, name: str) -> Callable[..., Any]:
    """Return a function that enqueues a job, and whose result gives the job's outcome."""
    import rq

    for worker in workers:
        assert worker.poll() is None, worker.communicate()[0]

    def send(job: str, *arguments: object, **more: Any) -> Any:
        return rq.Queue(connection=raw).enqueue(f"contrib_jobs.{job}", name, *arguments, **more)

    return send


@pytest.fixture
def wait(client: holdfast.Client, name: str) -> holdfast.Lock:
    """Hold the lock for which the jobs wait in their work."""
    return client.lock(f"wait:{name}")


def waiting(wait: holdfast.Lock) -> None:
    until(lambda: wait.inspect().waiters >= 1, 30)


def comes_again(job: Any) -> None:
    until(lambda: job.get_status(refresh=True) == "scheduled", 30)


def ended(job: Any) -> Any:
    until(lambda: job.get_status(refresh=True) in ("finished", "failed"), 50)
    return job.latest_result()


def done(job: Any) -> Any:
    result = ended(job)
    assert result.type.name == "SUCCESSFUL", result.exc_string
    return result.return_value


def failed(job: Any) -> str:
    result = ended(job)
    assert result.type.name == "FAILED"
    return str(result.exc_string)


def free(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name)
    lock.force_release(lock.inspect().fence)


@needs("rq")
def test_a_busy_job_comes_again_and_keeps_its_retries(
    send: Any, wait: holdfast.Lock, client: holdfast.Client, name: str
) -> None:
    import rq

    with wait:
        first = send("work")
        waiting(wait)
        assert "held by another owner" in done(send("calls"))  # a call inside a job
        second = send("work", retry=rq.Retry(max=3))
        comes_again(second)
    (one, held), (two, held_too) = done(first), done(second)
    assert one < two
    assert held is held_too is True
    second.refresh()
    assert second.retries_left == 3
    assert done(send("coroutine")) is True
    assert not client.lock(name).locked()


@needs("rq")
def test_a_job_comes_again_after_an_error_of_the_server(
    send: Any, wait: holdfast.Lock, raw: redis.Redis, name: str
) -> None:
    with refused(raw, name):
        job = send("work")
        comes_again(job)
    assert done(job)[1] is True


@needs("rq")
def test_a_job_comes_again_only_so_often(send: Any, client: holdfast.Client, name: str) -> None:
    with client.lock(name):
        assert ended(send("gives_up")).type.name == "MAX_RETRIES_EXCEEDED"


@needs("rq")
def test_a_job_that_takes_too_long_releases_its_lock(
    send: Any, wait: holdfast.Lock, client: holdfast.Client, name: str
) -> None:
    with wait:
        assert "JobTimeoutException" in failed(send("limited", job_timeout=1))
        assert not client.lock(name).locked()  # its lease is a minute


@needs("rq")
def test_a_job_whose_process_was_killed_runs_again(
    send: Any, wait: holdfast.Lock, raw: redis.Redis, client: holdfast.Client, name: str
) -> None:
    import rq

    def runs() -> list[int]:
        found: Any = raw.lrange(f"{name}:runs", 0, -1)
        return [int(each) for each in found]

    with wait:
        killed = send("once", retry=rq.Retry(max=1))
        waiting(wait)
        other = send("once")
        comes_again(other)
        os.kill(runs()[0], signal.SIGKILL)
        for each in (name, f"{name}:run"):  # as if the leases had ended
            free(client, each)
        until(lambda: len(runs()) == 2, 30)
    assert sorted([done(killed), done(other)], key=str) == [None, "done"]
    assert done(send("once")) is None
    assert len(runs()) == 2
    free(client, name)


@needs("rq")
def test_a_job_that_came_meanwhile_does_what_a_failed_run_did_not(
    send: Any, wait: holdfast.Lock, client: holdfast.Client, name: str
) -> None:
    with wait:
        first = send("once", 1)
        waiting(wait)
        second = send("once")
        comes_again(second)
    assert "KeyError" in failed(first)
    assert done(second) == "done"
    free(client, name)


@needs("rq")
def test_a_job_that_asks_for_a_retry_has_not_done_its_work(
    send: Any, client: holdfast.Client, name: str
) -> None:
    assert done(send("asks_for_a_retry")) == "done"
    assert done(send("asks_for_a_retry")) is None
    with client.lock(f"{name}:inner"):
        busy = send("stacked")
        comes_again(busy)
    assert done(busy) == "done"
    for each in (name, f"{name}:period"):
        free(client, each)


@needs("rq")
def test_sigterm_lets_a_job_finish(
    send: Any,
    wait: holdfast.Lock,
    client: holdfast.Client,
    name: str,
    workers: list[subprocess.Popen[str]],
) -> None:
    with wait:
        last = send("work")
        waiting(wait)
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
    for worker in workers:
        said = worker.communicate(timeout=40)[0]
        assert worker.returncode == 0, said
    assert done(last)[1] is True
    assert not client.lock(name).locked()


@needs("rq")
def test_arguments_of_the_decorator_are_checked(client: holdfast.Client) -> None:
    from holdfast.contrib.rq import get_current_hold, locked

    with pytest.raises(ValueError, match="no parameter"):
        locked(client, "{item}")(lambda: None)
    with pytest.raises(ValueError, match="interval must be"):
        locked(client, "x", interval=0)
    with pytest.raises(ValueError, match="once_per must be"):
        locked(client, "x", once_per=0)(lambda: None)
    with pytest.raises(RuntimeError, match="no job runs under a lock"):
        get_current_hold()


# ------------------------------------------------------------------- APScheduler


def test_one_of_all_calls_does_the_work_and_the_others_wait(
    client: holdfast.Client, name: str
) -> None:
    worked: list[str] = []

    @apscheduler.once_per(client, name + ":{what}", period=3600)
    def job(what: str) -> str:
        time.sleep(0.1)
        worked.append(what)
        return what

    threads = [Thread(lambda: job("x")) for _ in range(5)]
    results = [each.finish() for each in threads]
    assert sorted(results, key=str) == [None, None, None, None, "x"]
    assert job("y") == "y"
    assert worked == ["x", "y"]
    for each in worked:
        free(client, f"{name}:{each}")


def test_another_takes_over_from_a_run_that_fails(client: holdfast.Client, name: str) -> None:
    begun, go = threading.Event(), threading.Event()
    runs: list[int] = []

    @apscheduler.once_per(client, name, 3600)
    def job() -> str:
        runs.append(1)
        if len(runs) == 1:
            begun.set()
            go.wait(20)
            raise KeyError(name)
        return "done"

    first = Thread(job)
    assert begun.wait(20)
    others = [Thread(job) for _ in range(2)]
    lock = client.lock(f"{name}:run")
    until(lambda: lock.inspect().waiters == 2, 20)
    go.set()
    with pytest.raises(KeyError):
        first.finish()
    assert sorted([each.finish() for each in others], key=str) == [None, "done"]
    free(client, name)


def test_a_coroutine_waits_too_and_only_for_its_timeout(client: holdfast.Client, name: str) -> None:
    runs: list[int] = []

    @apscheduler.once_per(client, name, 3600, timeout=3)
    async def job() -> str:
        runs.append(1)
        if len(runs) == 1:
            with pytest.raises(holdfast.LockTimeout):
                await job()
            raise KeyError(name)
        return "done"

    async def main() -> None:
        with pytest.raises(KeyError):
            await job()
        assert await job() == "done"
        assert await job() is None

    asyncio.run(main())
    free(client, name)


def test_an_acquire_that_nobody_knows_of_is_no_work_done(
    client: holdfast.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def unknown(*_: object) -> Iterator[None]:
        raise holdfast.LockUnknown("the answer was lost")
        yield

    job = apscheduler.once_per(client, name, 3600, timeout=0)(lambda: "done")
    with monkeypatch.context() as patch:
        patch.setattr(_jobs, "turn", unknown)
        with pytest.raises(holdfast.LockUnknown):
            job()
    with pytest.raises(holdfast.LockTimeout):  # as if it ran, until that lease has ended
        job()
    free(client, f"{name}:run")
    assert job() == "done"
    free(client, name)


HOST = """
import os, signal, sys
import holdfast, redis
from apscheduler.schedulers.background import BackgroundScheduler
from holdfast.contrib.apscheduler import once_per

client = holdfast.connect(os.environ["HOLDFAST_URL"], lazy=True)
store = redis.Redis.from_url(os.environ["HOLDFAST_URL"])


@once_per(client, sys.argv[1], 3600, lease=1, renew=True)
def nightly():
    if store.rpush(sys.argv[1] + ":runs", os.getpid()) == 1:
        with client.lock("wait:" + sys.argv[1], reentrant=False).hold():
            pass


if __name__ == "__main__":
    scheduler = BackgroundScheduler()
    scheduler.add_listener(lambda event: print(event.exception), 1 << 12 | 1 << 13)
    scheduler.add_job(nightly, misfire_grace_time=None)  # at once
    scheduler.start()
    signal.pause()
"""


@needs("apscheduler")
def test_the_job_of_a_scheduler_that_dies_is_another_s(
    server: Server, client: holdfast.Client, raw: redis.Redis, name: str, tmp_path: Path
) -> None:
    tmp_path.joinpath("host.py").write_text(HOST)
    wait = client.lock(f"wait:{name}")
    with programs(tmp_path, HOLDFAST_URL=server.tcp) as start, wait:
        hosts = {each.pid: each for each in (start("host.py", name) for _ in range(2))}
        until(lambda: raw.llen(f"{name}:runs") == 1 and wait.inspect().waiters, 30)
        found: Any = raw.lindex(f"{name}:runs", 0)
        first = int(found)
        os.kill(first, signal.SIGKILL)
        until(lambda: raw.llen(f"{name}:runs") == 2, 30)
        other = hosts[next(pid for pid in hosts if pid != first)]
        assert other.stdout is not None
        assert other.stdout.readline() == "None\n"
        free(client, name)
