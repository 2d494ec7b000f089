"""holdfast.contrib.celery, with real workers and beats."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
import holdfast.testing
from conftest import Server, refused, until
from running import Start, ended, programs

pytest.importorskip("celery")

from celery import Celery
from celery.exceptions import ImproperlyConfigured

from holdfast.contrib.celery import LockedTask, get_client

pytestmark = pytest.mark.timeout(240)

TASKS = '''
import os
import time

import holdfast
import redis
from celery import Celery, signals
from celery.exceptions import SoftTimeLimitExceeded
from holdfast.contrib.celery import LockedTask, get_client

app = Celery("tasks", task_cls="holdfast.contrib.celery:LockedTask")
app.conf.update(
    broker_url=os.environ["BROKER_URL"],
    result_backend=os.environ["BROKER_URL"],
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    holdfast_url=os.environ["HOLDFAST_URL"],
    holdfast_options={"client_name": "worker"},
    beat_schedule={"nightly": {"task": "tasks.nightly", "schedule": 0.5}},
)
store = redis.Redis.from_url(os.environ["BROKER_URL"])
client = holdfast.connect(os.environ["HOLDFAST_URL"], lazy=True)
QUICK = {"lock_countdown": 0.2}


def wait(name):
    """Wait while the test holds that lock."""
    with client.lock(f"wait:{name}", reentrant=False).hold():
        pass


@app.task(bind=True, lock="{name}", **QUICK)
def work(self, name):
    store.rpush(f"{name}:runs", self.hold.fence)
    wait(name)
    return self.request.retries, client.lock(name).locked()


@app.task(bind=True, lock="{name}", lock_max_retries=2, **QUICK)
def gives_up(self, name):
    raise AssertionError


@app.task(bind=True, lock="{name}", lock_busy="skip")
def skips(self, name):
    return "done"


@app.task(bind=True, lock="{name}", max_retries=1, default_retry_delay=0.1, **QUICK)
def fails(self, name):
    store.rpush(f"{name}:runs", self.request.retries)
    raise self.retry(exc=KeyError(name))


@app.task(bind=True, lock="{name}", soft_time_limit=1)
def limited(self, name):
    try:
        wait(name)
    except SoftTimeLimitExceeded:
        return client.lock(name).locked()


@app.task(lock="{name}", lock_options=holdfast.LockOptions(lease=60, renew=True))
def revoked(name):
    wait(name)


@app.task
def leaves(name):
    get_client(app).lock(f"{name}:left", lease=60, renew=True).acquire()


@app.task(
    lock="{name}",
    once_per=3600,
    acks_late=True,
    reject_on_worker_lost=True,
    lock_options=holdfast.LockOptions(lease=60, renew=True),
    **QUICK,
)
def once(name, fail=0):
    run = store.rpush(f"{name}:runs", os.getpid())
    wait(name)
    if run <= fail:
        raise KeyError(name)
    return "done"


@app.task(
    bind=True,
    lock="pay:{name}",
    once={"ttl": 60, "note": "order 7"},
    acks_late=True,
    reject_on_worker_lost=True,
    lock_options=holdfast.LockOptions(lease=60, renew=True),
    **QUICK,
)
def pays(self, name):
    store.rpush(f"{name}:runs", os.getpid())
    wait(name)
    return self.hold.fence


@app.task(
    lock="{name}",
    lock_busy="skip",
    acks_late=True,
    reject_on_worker_lost=True,
    lock_options=holdfast.LockOptions(lease=60, renew=True),
    **QUICK,
)
def skips_late(name):
    store.rpush(f"{name}:runs", os.getpid())
    wait(name)
    return "done"


@app.task(once_per=3600)
def nightly():
    store.rpush("nightly:runs", os.getpid())


@signals.before_task_publish.connect
def sent(sender, **_):
    store.hincrby("sent", str(os.getpid()))


@signals.task_success.connect(sender=nightly)
def done(**_):
    store.incr("done")
'''


@pytest.fixture(scope="module")
def broker(server: Server) -> str:
    return f"{server.tcp}/1"


@pytest.fixture(scope="module")
def begun(
    server: Server, broker: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Start, subprocess.Popen[str]]]:
    """Start a worker with three processes; yield a function that starts more programs beside it."""
    folder = tmp_path_factory.mktemp("celery")
    folder.joinpath("tasks.py").write_text(TASKS)
    with programs(folder, HOLDFAST_URL=server.tcp, BROKER_URL=broker) as start:
        worker = start("-m", "celery", "-A", "tasks", "worker", "-c", "3", "-l", "warning")
        yield start, worker


@pytest.fixture
def worker(begun: tuple[Start, subprocess.Popen[str]]) -> subprocess.Popen[str]:
    return begun[1]


@pytest.fixture(scope="module")
def app(server: Server, broker: str) -> Iterator[Celery]:
    with Celery("test", broker=broker, backend=broker) as app:
        app.conf.holdfast_url = server.tcp
        yield app
        get_client(app).close()


@pytest.fixture
def store(broker: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker) as store:
        yield store


@pytest.fixture
def runs(store: redis.Redis, name: str) -> Callable[[], list[int]]:
    def runs() -> list[int]:
        found: Any = store.lrange(f"{name}:runs", 0, -1)
        return [int(each) for each in found]

    return runs


Send = Callable[..., Any]


@pytest.fixture
def send(app: Celery, name: str, worker: subprocess.Popen[str]) -> Send:
    """Return a function that sends a task to the worker, and whose result gives the task's."""
    sent: list[Any] = []

    def send(task: str, **more: Any) -> Any:
        sent.append(app.send_task(f"tasks.{task}", [name], more))
        return sent[-1]

    assert worker.poll() is None, worker.communicate()[0]
    return send


@pytest.fixture
def wait(client: holdfast.Client, name: str) -> holdfast.Lock:
    """Hold the lock for which the tasks wait in their work."""
    return client.lock(f"wait:{name}")


def free(client: holdfast.Client, name: str) -> None:
    lock = client.lock(name)
    lock.force_release(lock.inspect().fence)


def expire(client: holdfast.Client, name: str) -> None:
    """Free what a dead process holds, as if its leases had ended: first the period's."""
    free(client, name)
    if client.lock(f"{name}:run").locked():
        free(client, f"{name}:run")


def waiting(wait: holdfast.Lock) -> None:
    until(lambda: wait.inspect().waiters == 1, 30)


def test_a_busy_task_comes_again_and_keeps_its_retries(
    send: Send, wait: holdfast.Lock, runs: Any
) -> None:
    with wait:
        first = send("work")
        waiting(wait)
        second = send("work")
        until(lambda: second.state == "RETRY", 20)
        assert "held by another owner" in str(second.result)
    assert first.get(timeout=30) == [0, True]
    assert second.get(timeout=30) == [0, True]
    (one, two) = runs()
    assert one < two


@pytest.mark.parametrize(("task", "lock"), [("work", "{}"), ("pays", "pay:{}")])
def test_a_task_comes_again_after_an_error_of_the_server(
    send: Send, raw: redis.Redis, name: str, runs: Any, task: str, lock: str
) -> None:
    with refused(raw, lock.format(name)):
        refusal = send(task)
        until(lambda: refusal.state == "RETRY", 20)
    assert refusal.get(timeout=30)
    assert len(runs()) == 1


def test_a_task_comes_again_only_so_often(send: Send, client: holdfast.Client, name: str) -> None:
    with client.lock(name):
        with pytest.raises(Exception, match="held by another owner") as failed:
            send("gives_up").get(timeout=30)
        assert type(failed.value).__name__ == "LockTimeout"
        assert send("skips").get(timeout=30) is None
    assert send("skips").get(timeout=30) == "done"


def test_errors_have_the_retries_that_the_task_says(
    send: Send, client: holdfast.Client, name: str, runs: Any
) -> None:
    with client.lock(name):
        failing = send("fails")
        until(lambda: failing.state == "RETRY", 20)
    with pytest.raises(KeyError):
        failing.get(timeout=30)
    assert runs() == [0, 1]
    assert not client.lock(name).locked()


def test_a_time_limit_and_a_revocation_release_the_lock(
    send: Send, client: holdfast.Client, name: str, wait: holdfast.Lock
) -> None:
    lock = client.lock(name)
    with wait:
        assert send("limited").get(timeout=30) is True
        assert not lock.locked()
        revoked = send("revoked")
        waiting(wait)
        assert lock.locked()
        revoked.revoke(terminate=True)
        until(lambda: not lock.locked(), 20)  # its lease is a minute


def test_a_task_whose_worker_was_killed_runs_again(
    send: Send, client: holdfast.Client, name: str, wait: holdfast.Lock, runs: Any
) -> None:
    for task in ("skips_late", "once"):
        with wait:
            killed = send(task)
            waiting(wait)
            before = len(runs())
            os.kill(runs()[-1], signal.SIGKILL)
            expire(client, name)
            until(lambda: len(runs()) > before, 40)  # noqa: B023
        assert killed.get(timeout=30) == "done"
    assert len(runs()) == 4
    assert send("once").get(timeout=30) is None
    assert len(runs()) == 4
    free(client, name)


def test_a_payment_is_made_by_one_task_and_the_others_have_its_result(
    send: Send, wait: holdfast.Lock, runs: Any
) -> None:
    with wait:
        first = send("pays")
        waiting(wait)
        second = send("pays")
        until(lambda: second.state == "RETRY", 20)
    assert first.get(timeout=30) == second.get(timeout=30) > 0
    assert len(runs()) == 1


def test_a_payment_whose_worker_was_killed_is_not_made_again(
    send: Send, client: holdfast.Client, name: str, wait: holdfast.Lock, runs: Any
) -> None:
    with wait:
        killed = send("pays")
        waiting(wait)
        os.kill(runs()[0], signal.SIGKILL)
        free(client, f"pay:{name}")  # as when its lease ends
        with pytest.raises(holdfast.OutcomeUnknown):
            killed.get(timeout=40)
    with pytest.raises(holdfast.OutcomeUnknown):
        send("pays").get(timeout=30)
    assert len(runs()) == 1
    found = client.once_result(f"pay:{name}")
    assert found is not None
    assert (found.state, found.note) == ("unknown", "order 7")
    found.resolve(17)
    assert send("pays").get(timeout=30) == 17


def test_a_task_that_came_meanwhile_does_what_a_failed_run_did_not(
    send: Send, client: holdfast.Client, name: str, wait: holdfast.Lock, runs: Any
) -> None:
    with wait:
        first = send("once", fail=1)
        waiting(wait)
        others = [send("once") for _ in range(2)]
        until(lambda: [each.state for each in others] == ["RETRY"] * 2, 20)
    with pytest.raises(KeyError):
        first.get(timeout=30)
    results = [each.get(timeout=30) for each in others]
    assert sorted(results, key=str) == [None, "done"]
    assert len(runs()) == 2
    free(client, name)


def test_two_beats_fire_once(
    begun: tuple[Start, subprocess.Popen[str]], store: redis.Redis, client: holdfast.Client
) -> None:
    start, worker = begun
    store.delete("sent", "done", "nightly:runs")
    beats = [
        start("-m", "celery", "-A", "tasks", "beat", "-l", "warning", "-s", f"beat{number}")
        for number in range(2)
    ]

    def fired() -> bool:
        for each in (*beats, worker):
            assert each.poll() is None, each.communicate()[0]
        # Also the worker's, if it retries the task that finds the other one running.
        sent = [int(store.hget("sent", str(each.pid)) or 0) for each in beats]
        return min(sent) >= 2 and int(store.get("done") or 0) >= 4

    until(fired, 60)
    assert store.llen("nightly:runs") == 1
    free(client, "tasks.nightly")  # as if the period had ended
    until(lambda: store.llen("nightly:runs") == 2, 30)
    for beat in beats:
        ended(beat)
    free(client, "tasks.nightly")


def test_sigterm_lets_a_task_finish_and_releases_what_is_left(
    send: Send,
    client: holdfast.Client,
    name: str,
    wait: holdfast.Lock,
    worker: subprocess.Popen[str],
) -> None:
    left = client.lock(f"{name}:left")
    send("leaves").get(timeout=30)
    assert left.locked()
    with wait:
        last = send("work")
        waiting(wait)
        worker.send_signal(signal.SIGTERM)
    said = worker.communicate(timeout=40)[0]
    assert worker.returncode == 0, said
    assert last.get(timeout=30) == [0, True]
    assert not client.lock(name).locked()
    assert not left.locked()  # its lease is a minute


# ------------------------------------------------------------------ In this process


def task(app: Celery, **options: Any) -> Any:
    def work(name: str, times: int = 1) -> str:
        return f"{name} {times}"

    return app.task(base=LockedTask, name=f"task {time.monotonic_ns()}", **options)(work)


def test_a_call_runs_under_the_lock_and_raises_if_it_is_held(
    app: Celery, client: holdfast.Client, name: str
) -> None:
    work = task(app, lock=name + ":{name}:{times}")
    assert work("x") == "x 1"
    with pytest.raises(RuntimeError, match="does not run under a lock"):
        _ = work.hold
    with client.lock(f"{name}:x:1"):
        with pytest.raises(holdfast.LockTimeout):
            work("x")
        assert work("x", times=2) == "x 2"
        with pytest.raises(holdfast.LockTimeout):
            work.apply(["x"]).get()  # a message that runs here cannot be delivered again


def test_work_that_is_done_once_refuses_other_arguments_and_a_second_run(
    app: Celery, name: str
) -> None:
    calls: list[int] = []

    def work(order: str, amount: int) -> int:
        calls.append(amount)
        if amount == 0:
            raise KeyError(order)
        return amount

    pay = app.task(base=LockedTask, name=f"task {name}", lock="{order}", once={"ttl": 60})(work)
    assert pay(name, 5) == pay(order=name, amount=5) == 5
    with pytest.raises(holdfast.FingerprintMismatch):
        pay(name, 6)
    with pytest.raises(KeyError):
        pay(name + "2", 0)
    with pytest.raises(holdfast.OutcomeUnknown):
        pay(name + "2", 0)
    assert calls == [5, 0]


def test_a_payment_whose_result_is_not_kept_is_its_task_s_result(
    app: Celery, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(order: str) -> str:
        return "x" * (2 << 20)

    pay = app.task(base=LockedTask, name=f"task {name}", lock="{order}", once={"ttl": 60})(work)
    assert pay(name) == "x" * (2 << 20)
    assert f"the call {name!r} was made, but its result is not kept" in caplog.text
    with pytest.raises(holdfast.OutcomeUnknown):
        pay(name)


def test_a_coroutine_is_no_result_of_a_payment(app: Celery, name: str) -> None:
    async def vendor() -> str:
        raise AssertionError("nothing runs it")

    def work(order: str) -> object:
        return vendor()

    pay = app.task(base=LockedTask, name=f"task {name}", lock="{order}", once={"ttl": 60})(work)
    with pytest.raises(TypeError, match="gave a coroutine"):
        pay(name)


def test_permits_let_so_many_tasks_run(app: Celery, client: holdfast.Client, name: str) -> None:
    work = task(app, lock="{name}", lock_options=holdfast.LockOptions(permits=2, reentrant=False))
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats:
        assert work(name) == f"{name} 1"
        with seats, pytest.raises(holdfast.LockTimeout):
            work(name)


GREENLETS = """
import gevent.monkey
gevent.monkey.patch_all()

import os
import gevent
import holdfast
from celery import Celery
from holdfast.contrib.celery import LockedTask

app = Celery("greenlets", task_cls=LockedTask)
app.conf.holdfast_url = os.environ["HOLDFAST_URL"]


@app.task(lock="greenlets")
def work():
    gevent.sleep(0.1)


both = gevent.joinall([gevent.spawn(work) for _ in range(2)])
print([type(each.exception).__name__ for each in both])
"""


def test_the_greenlets_of_a_pool_exclude_each_other(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("gevent")
    with programs(tmp_path, HOLDFAST_URL=server.tcp) as start:
        said = start("-c", GREENLETS).communicate(timeout=60)[0]
    assert "'NoneType'" in said
    assert "'LockTimeout'" in said


def test_options_of_a_task_are_checked_at_once(app: Celery) -> None:
    with pytest.raises(ValueError, match="no parameter"):
        task(app, lock="{item}").name  # noqa: B018
    with pytest.raises(ValueError, match="once_per must be"):
        task(app, once_per=0).name  # noqa: B018
    with pytest.raises(ValueError, match='lock_busy must be "retry" or "skip"'):
        task(app, lock="x", lock_busy="no").name  # noqa: B018
    with pytest.raises(TypeError, match="options must be LockOptions"):
        task(app, lock="x", lock_options={"lease": 5}).name  # noqa: B018
    for wrong in ({}, {"ttl": 60, "at_most_once": False}, {"ttl": 1}):
        with pytest.raises(ValueError, match=r"ttl"):
            task(app, lock="{name}", once=wrong).name  # noqa: B018
    with pytest.raises(ValueError, match="once takes a lock"):
        task(app, once={"ttl": 60}).name  # noqa: B018
    with pytest.raises(ValueError, match="once takes a lock"):
        task(app, lock="{name}", once={"ttl": 60}, once_per=60).name  # noqa: B018
    with pytest.raises(TypeError, match="lock_countdown must be seconds"):
        task(app, lock="x", lock_countdown="5").name  # noqa: B018
    with pytest.raises(TypeError, match=r'the option lock\("report"\)'):
        task(app, lock=7).name  # noqa: B018


def test_a_wrong_setting_is_named() -> None:
    with pytest.raises(ImproperlyConfigured, match="holdfast_url is missing"):
        get_client(Celery("unset"))
    wrong = Celery("wrong")
    wrong.conf.holdfast_url = "redis://localhost"
    wrong.conf.holdfast_options = {"lazy": "no"}
    with pytest.raises(ImproperlyConfigured, match="holdfast_options: lazy must be"):
        get_client(wrong)


def test_a_subclass_may_have_a_client_of_its_own(app: Celery, name: str) -> None:
    with holdfast.testing.MemoryClient() as memory:

        class Mine(LockedTask):
            client = memory

        def seven() -> int:
            return 7

        work = app.task(base=Mine, name=name, once_per=60)(seven)
        assert work() == 7
        assert work() is None
        assert memory.lock(name).locked()
