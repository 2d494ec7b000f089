"""The programs of docs/guides, run with their frameworks."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
import holdfast.sql
from conftest import Databases, Server, until
from pages import blocks, files, name_of
from running import Answer, Start, ended, free_port, gunicorn, listens, needs, programs


@pytest.fixture
def start(server: Server, tmp_path: Path) -> Iterator[Start]:
    with programs(tmp_path, HOLDFAST_URL=server.tcp, BROKER_URL=server.tcp) as begin:
        yield begin


def test_the_files_of_each_guide_are_run() -> None:
    shown = {each.page for each in blocks("python") if name_of(each)}
    assert shown == set(re.findall(r'files\("(.*)", tmp_path\)', Path(__file__).read_text()))


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text, f"{file.name} has no {old}"
    file.write_text(text.replace(old, new))


def check_paid(port: int, client: holdfast.Client) -> None:
    """Check that a guide's payment is made once for the key of a shop."""
    headers = {"X_Shop": "7", "Idempotency_Key": '"k1"'}
    try:
        first, second = (Answer(port, "POST", "/pay/7", **headers) for _ in range(2))
        assert (first.status, second.status) == (201, 201), (first.text, second.text)
        assert first.text == second.text
        assert "payment" in first.text
        other = Answer(port, "POST", "/pay/8", **headers)
        assert (other.status, json.loads(other.text)["status"]) == (422, 422)
        assert Answer(port, "POST", "/pay/7", X_Shop="7").status == 400
    finally:
        assert client.once_forget("pay:7:k1")


# --------------------------------------------------------------------- Django

SETTINGS = """
import os

DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
HOLDFAST = {"URL": os.environ["HOLDFAST_URL"]}
INSTALLED_APPS = ["shop", "holdfast.contrib.django"]
ROOT_URLCONF = "urls"
SECRET_KEY = "only for this test"
ALLOWED_HOSTS = ["127.0.0.1"]
"""
MODELS = """
from django.db import models


class Item(models.Model):
    stock = models.IntegerField()
    fence = models.BigIntegerField(default=0)
"""
URLS = """
from django.urls import path
from shop import views

urlpatterns = [path("buy/<int:item>", views.buy)]
"""
PAY = """
from shop import payments

urlpatterns.append(path("pay/<int:order>", payments.pay))
"""
FILL = """
import django
django.setup()
from django.core.management import call_command
call_command("migrate", run_syncdb=True, verbosity=0)
from shop.models import Item
Item.objects.create(pk=7, stock=0)
call_command("restock", "7")
"""
WSGI = """
from django.core.wsgi import get_wsgi_application
application = get_wsgi_application()
"""


@needs("django")
def test_django(start: Start, client: holdfast.Client, tmp_path: Path) -> None:
    files("docs/guides/django.md", tmp_path)
    for name, text in [("settings", SETTINGS), ("urls", URLS + PAY), ("wsgi", WSGI)]:
        tmp_path.joinpath(f"{name}.py").write_text(text)
    tmp_path.joinpath("shop/models.py").write_text(MODELS)
    for folder in ("shop", "shop/management", "shop/management/commands"):
        tmp_path.joinpath(folder, "__init__.py").touch()
    here = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path)}
    assert done(start("-c", FILL, **here)) == "item 7 is there again\n"
    port = free_port()
    site = start(*gunicorn(port), "wsgi", **here)
    until(lambda: listens(port, site), 30)

    def buy(_: int) -> str:
        while (answer := Answer(port, "GET", "/buy/7")).status == 409:
            pass  # the machine is busy
        return answer.text

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(buy, range(12)))
    assert sorted(answers) == ["sold"] * 5 + ["sold out"] * 7
    check_paid(port, client)

    with client.lock("item:7"):
        busy = Answer(port, "GET", "/buy/7")
        assert (busy.status, busy.retry_after) == (409, "1")
        change(tmp_path / "shop/management/commands/restock.py", ", timeout=10", "")
        restock = start("-m", "django", "restock", "7", **here)
        said = restock.communicate(timeout=50)[0]
        assert said.startswith("CommandError: another one runs: "), said
        assert restock.returncode == 75
    ended(site)


FENCED = """
import sys
import django
django.setup()
from django.core.management import call_command
from django.test import Client
call_command("migrate", run_syncdb=True, verbosity=0)
from shop.models import Item
Item.objects.create(pk=7, stock=5)
site = Client()
assert site.get("/buy/7", headers={"host": "127.0.0.1"}).content == b"sold"
item = Item.objects.get()
print(item.stock, item.fence > 0)
Item.objects.update(fence=item.fence + 10**12)  # a later holder
try:
    site.get("/buy/7", headers={"host": "127.0.0.1"})
except Exception as error:
    print(type(error).__name__, Item.objects.get().stock)
"""


@needs("django")
def test_fences_in_django(start: Start, tmp_path: Path) -> None:
    files("docs/guides/fences.md", tmp_path)
    for name, text in [("settings", SETTINGS), ("urls", URLS)]:
        tmp_path.joinpath(f"{name}.py").write_text(text)
    tmp_path.joinpath("shop/__init__.py").touch()
    here = {"DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": str(tmp_path)}
    assert done(start("-c", FENCED, **here)) == "4 True\nStaleFence 4\n"


# --------------------------------------------------------------- Fence checks


@needs("psycopg")
def test_fences(
    start: Start, server: Server, databases: Databases, raw: redis.Redis, tmp_path: Path
) -> None:
    import psycopg

    files("docs/guides/fences.md", tmp_path)
    with psycopg.connect(databases.postgresql, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS item, holdfast_fence")
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER)")
        database.execute("INSERT INTO item VALUES (7, 10)")
        database.execute(tmp_path.joinpath("postgresql.sql").read_bytes())
        assert done(start("sell.py", server.tcp, databases.postgresql)) == ""
        assert database.execute("SELECT stock FROM item").fetchone() == (9,)
        database.execute(
            "UPDATE holdfast_fence SET fence = fence + 1000000000000"
        )  # a later holder
        late = start("sell.py", server.tcp, databases.postgresql).communicate(timeout=50)[0]
        shown = next(each.text for each in blocks("") if each.page == "docs/guides/fences.md")
        assert re.sub(r"\d{16}", "N", late).endswith(re.sub(r"\d{16}", "N", shown))
        assert database.execute("SELECT stock FROM item").fetchone() == (9,)


@needs("sqlalchemy")
def test_fences_in_a_column(
    start: Start, server: Server, databases: Databases, tmp_path: Path
) -> None:
    import psycopg

    files("docs/guides/fences.md", tmp_path)
    (added,) = [
        each.text
        for each in blocks("sql")
        if each.page == "docs/guides/fences.md" and not name_of(each)
    ]
    url = databases.postgresql.replace("://", "+psycopg://")
    with psycopg.connect(databases.postgresql, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS item")
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER)")
        database.execute("INSERT INTO item VALUES (7, 10)")
        database.execute(added.partition("\n\n")[0].encode())
        assert done(start("buy.py", server.tcp, url)) == ""
        assert database.execute("SELECT stock FROM item").fetchone() == (9,)
        database.execute("UPDATE item SET fence = fence + 1000000000000")  # a later holder
        late = start("buy.py", server.tcp, url).communicate(timeout=50)[0]
        assert "holdfast.StaleFence: the fence" in late
        assert database.execute("SELECT stock FROM item").fetchone() == (9,)


def test_fences_in_redis(start: Start, server: Server, raw: redis.Redis, tmp_path: Path) -> None:
    files("docs/guides/fences.md", tmp_path)
    key, fence = "item:7:stock", "{item:7:stock}:fence"
    raw.delete(key, fence)
    assert done(start("store.py", server.tcp)) == ""
    assert raw.get(key) == b"9"
    script = tmp_path.joinpath("fenced.lua").read_text()
    last = int(raw.get(fence) or 0)
    assert raw.eval(script, 2, key, fence, str(last), "8") == b"OK"  # a holder may write twice
    raw.set(fence, last + 10**12)  # a later holder
    late = start("store.py", server.tcp).communicate(timeout=50)[0]
    assert f"STALEFENCE a later holder was there with the fence {last + 10**12}" in late
    with pytest.raises(redis.ResponseError, match="STALEFENCE"):
        raw.eval(script, 2, key, fence, str(last + 10**12 - 1), "7")
    assert raw.get(key) == b"8"
    raw.delete(key, fence)


@needs("httpx")
def test_fences_over_http(
    start: Start, server: Server, databases: Databases, tmp_path: Path
) -> None:
    import httpx
    import psycopg

    files("docs/guides/fences.md", tmp_path)
    port = free_port()
    command = ["-m", "uvicorn", "shop_api:app", "--port", str(port), "--log-level", "warning"]
    site = start(*command, DATABASE_URL=databases.postgresql)
    url = f"http://127.0.0.1:{port}"
    with psycopg.connect(databases.postgresql, autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS item, holdfast_fence")
        database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER)")
        database.execute("INSERT INTO item VALUES (7, 10)")
        database.execute(tmp_path.joinpath("postgresql.sql").read_bytes())
        until(lambda: listens(port, site), 30)
        assert done(start("caller.py", server.tcp, url)) == ""
        assert database.execute("SELECT stock FROM item").fetchone() == (9,)
        database.execute("UPDATE item SET stock = 8")
        database.execute("UPDATE holdfast_fence SET fence = 1795123461000345000")  # a later holder
        late = start("caller.py", server.tcp, url).communicate(timeout=50)[0]
        assert "holdfast.StaleFence: the fence" in late
        assert "of 'item:7' is stale: a later holder was there with the fence 17951234" in late

        def put(**headers: str) -> tuple[int, object]:
            headers = {key.replace("_", "-"): value for key, value in headers.items()}
            answer = httpx.put(f"{url}/items/7", params={"stock": 1}, headers=headers)
            return answer.status_code, answer.json()["detail"]

        status, told = put(if_fence="41")
        assert status == 412
        assert told == {
            "message": str(holdfast.StaleFence("item:7", 41, 1795123461000345000)),
            "fence": 41,
            "last": 1795123461000345000,
        }
        assert put() == (428, "the header If-Fence is missing: it has the fence of your hold")
        for wrong in ("", "0", "-1", "1e9", "7,8", "9" * 19):
            assert put(if_fence=wrong) == (
                400,
                f"If-Fence must be the fence of a hold, not {wrong!r}",
            )
        assert database.execute("SELECT stock FROM item").fetchone() == (8,)
    ended(site)


@needs("pymysql")
def test_the_migration_for_mysql_is_what_create_table_makes(
    databases: Databases, tmp_path: Path
) -> None:
    from databases import Database

    files("docs/guides/fences.md", tmp_path)
    database = Database("pymysql", databases.mariadb)
    made = set()
    for script in (tmp_path.joinpath("mysql.sql").read_text(), None):
        database.do("DROP TABLE IF EXISTS holdfast_fence")
        with database.opened() as (_, cursor):
            if script is None:
                holdfast.sql.create_table(cursor)
            else:
                cursor.execute(script)
        made.add(database.do("SHOW CREATE TABLE holdfast_fence"))
    assert len(made) == 1


# -------------------------------------------------------------------- FastAPI


@needs("fastapi")
def test_fastapi(start: Start, client: holdfast.Client, raw: redis.Redis, tmp_path: Path) -> None:
    files("docs/guides/fastapi.md", tmp_path)
    port = free_port()
    site = start("-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning")
    until(lambda: listens(port, site), 30)

    first = Answer(port, "POST", "/items/7/reports")
    assert first.status == 200, first.text
    with client.lock("report:7"):
        busy = Answer(port, "POST", "/items/7/reports")
        assert (busy.status, busy.retry_after) == (409, "1")
    assert Answer(port, "POST", "/items/7/reports").text > first.text  # the fence is at its end

    port_of_payments = free_port()
    command = ["-m", "uvicorn", "payments:app", "--log-level", "warning"]
    payments = start(*command, "--port", str(port_of_payments))
    until(lambda: listens(port_of_payments, payments), 30)
    check_paid(port_of_payments, client)
    ended(payments)

    raw.delete("geocoder")
    passes = [Answer(port, "GET", "/geocode") for _ in range(11)]
    assert [each.status for each in passes] == [200] * 10 + [429]
    assert 0 < int(passes[10].retry_after) <= 60
    raw.delete("geocoder")

    client.lock("report:7").acquire()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Answer, port, "POST", "/items/7/reports")
        until(lambda: client.lock("report:7").inspect().waiters == 1)
        site.send_signal(signal.SIGTERM)  # it lets the request finish
        client.lock("report:7").release()
        assert waiting.result().status == 200
    assert site.communicate(timeout=30)[0] == ""
    assert not client.lock("report:7").locked()


# ------------------------------------------------------------- Celery, and RQ

WORK = """
def write(report: int, fence: int) -> None:
    import time
    import redis

    with redis.Redis.from_url(os.environ["HOLDFAST_URL"]) as store:
        store.rpush("written", f"begins {fence}")
        time.sleep(0.1)
        store.rpush("written", f"ends {fence}")
"""
NIGHTLY = """
def nightly() -> None:
    import redis

    with redis.Redis.from_url(os.environ["HOLDFAST_URL"]) as store:
        store.rpush("worked", 1)
"""


def work_in(file: Path) -> None:
    """Let the program of a guide have work to do."""
    change(file, "\ndef write(report: int, fence: int) -> None: ...  # the work\n", WORK)
    change(file, "\ndef nightly() -> None: ...  # the work\n", NIGHTLY)


def done(process: subprocess.Popen[str]) -> str:
    """Wait until a program has done its work."""
    said = process.communicate(timeout=50)[0]
    assert process.returncode == 0, said
    return said


def check_written(worker: subprocess.Popen[str], raw: redis.Redis) -> None:
    """Wait until four jobs have run, and check that they ran one after the other."""

    def written() -> list[list[str]]:
        assert worker.poll() is None, worker.communicate()[0]
        lines: Any = raw.lrange("written", 0, -1)
        return [line.decode().split() for line in lines]

    until(lambda: len(written()) == 8, 40)
    lines = written()
    assert [what for what, _ in lines] == ["begins", "ends"] * 4, lines
    fences = [int(fence) for _, fence in lines]
    assert fences[::2] == fences[1::2] == sorted(fences[::2])
    assert raw.llen("worked") == 1


@pytest.fixture
def clean(raw: redis.Redis) -> Iterator[None]:
    raw.delete("written", "worked", "nightly", "tasks.nightly")
    yield
    raw.delete("written", "worked", "nightly", "tasks.nightly")


@needs("celery")
@pytest.mark.usefixtures("clean")
def test_celery(start: Start, client: holdfast.Client, raw: redis.Redis, tmp_path: Path) -> None:
    files("docs/guides/celery.md", tmp_path)
    work_in(tmp_path / "tasks.py")
    change(tmp_path / "tasks.py", "acks_late=True", "acks_late=True, lock_countdown=0.2")
    worker = start("-m", "celery", "-A", "tasks", "worker", "--concurrency", "2", "-l", "warning")
    send = "from tasks import *\nfor _ in range(4): nightly.delay(), rebuild.delay(7)\n"
    done(start("-c", send))
    check_written(worker, raw)
    assert raw.ttl("tasks.nightly") > 22 * 3600
    ended(worker)
    assert worker.returncode == 0
    assert not client.lock("report:7").locked()


@needs("rq")
@pytest.mark.usefixtures("clean")
def test_rq(
    start: Start, server: Server, client: holdfast.Client, raw: redis.Redis, tmp_path: Path
) -> None:
    files("docs/guides/rq.md", tmp_path)
    work_in(tmp_path / "jobs.py")
    change(tmp_path / "jobs.py", '"report:{report}"', '"report:{report}", interval=1')
    (sh,) = [each.text for each in blocks("sh") if each.page == "docs/guides/rq.md"]
    command = ["-m", "rq.cli", *sh.split()[1:], "--url", server.tcp, "--path", str(tmp_path)]
    workers = [start(*command) for _ in range(2)]
    send = """
import jobs, redis, os, rq
with redis.Redis.from_url(os.environ["HOLDFAST_URL"]) as store:
    for _ in range(4):
        rq.Queue(connection=store).enqueue(jobs.nightly)
        rq.Queue(connection=store).enqueue(jobs.rebuild, 7)
"""
    done(start("-c", send))
    check_written(workers[0], raw)
    assert raw.ttl("nightly") > 22 * 3600
    for worker in workers:
        ended(worker)
        assert worker.returncode == 0
    assert not client.lock("report:7").locked()


# ---------------------------------------------------------------- APScheduler

LISTEN = """
    import redis

    store = redis.Redis.from_url(os.environ["HOLDFAST_URL"])
    scheduler.add_listener(lambda event: store.hincrby("tried", str(os.getpid())), 1 << 12)
    scheduler.start()
"""


@needs("apscheduler")
@pytest.mark.usefixtures("clean")
def test_apscheduler(start: Start, raw: redis.Redis, tmp_path: Path) -> None:
    files("docs/guides/apscheduler.md", tmp_path)
    jobs = tmp_path / "jobs.py"
    change(jobs, '"cron", hour=3', '"interval", seconds=0.2')
    change(jobs, "    scheduler.start()\n", LISTEN)
    change(jobs, "\ndef nightly() -> None: ...  # the work\n", NIGHTLY)
    raw.delete("tried")
    hosts = [start("jobs.py") for _ in range(3)]

    def tries() -> list[int]:
        for host in hosts:
            assert host.poll() is None, host.communicate()[0]
        return [int(count) for count in raw.hvals("tried")]

    until(lambda: len(tries()) == 3 and min(tries()) >= 3, 40)
    assert raw.llen("worked") == 1
    assert raw.ttl("nightly") > 22 * 3600
    raw.delete("tried")


# ---------------------------------------------------- Kubernetes and SIGTERM


def test_kubernetes(start: Start, client: holdfast.Client, tmp_path: Path) -> None:
    files("docs/guides/kubernetes.md", tmp_path)
    pod = start("worker.py")
    assert pod.stdout is not None
    assert pod.stdout.readline().startswith("working, with the fence ")
    lock = client.lock("indexer")
    assert lock.locked()
    since = time.monotonic()
    assert ended(pod) == ""
    assert pod.returncode == 128 + signal.SIGTERM
    assert not lock.locked()
    assert time.monotonic() - since < 9, "it waited for the lease"


def test_a_program_that_does_not_handle_sigterm_leaves_its_lock(
    start: Start, client: holdfast.Client, tmp_path: Path
) -> None:
    files("docs/guides/kubernetes.md", tmp_path)
    change(tmp_path / "worker.py", ", sigterm=True", "")
    pod = start("worker.py")
    assert pod.stdout is not None
    pod.stdout.readline()
    ended(pod)
    lock = client.lock("indexer")
    info: Any = lock.inspect()
    assert info.held
    lock.force_release(info.fence)


# -------------------------------------------------------------------- asyncio


def test_the_error_that_the_guide_to_asyncio_shows(client: holdfast.Client) -> None:
    async def main() -> None:
        client.lock("stock").acquire()

    (shown,) = [each.text for each in blocks("") if each.page == "docs/guides/asyncio.md"]
    with pytest.raises(RuntimeError) as refused:
        asyncio.run(main())
    assert f"RuntimeError: {refused.value}\n" == shown
