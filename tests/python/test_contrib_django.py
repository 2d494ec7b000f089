"""holdfast.contrib.django, in this process and under gunicorn."""

from __future__ import annotations

import asyncio
import functools
import http.client
import io
import logging
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
import holdfast.testing
from conftest import Server, until
from running import Answer, ended, free_port, gunicorn, listens, programs

pytest.importorskip("django_redis")

from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.base import BaseHandler
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import connection, connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import path
from django.utils.asyncio import async_unsafe
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

import django_site  # noqa: F401
from holdfast.contrib.django import get_client, idempotent_view, locked_command, locked_view

told: list[Any] = []


@pytest.fixture(autouse=True)
def _settings(server: Server) -> Iterator[None]:
    told.clear()
    with override_settings(HOLDFAST={"URL": server.tcp}):
        yield


@pytest.fixture
def held(client: holdfast.Client, name: str) -> Iterator[holdfast.Lock]:
    """Hold a lock for another owner."""
    lock = client.lock(name, owner="another")
    with lock:
        yield lock


# -------------------------------------------------------------------------- Views


@locked_view("{name}:{page}")
def plain(request: HttpRequest, name: str, page: int = 1) -> HttpResponse:
    told.append((request.hold.fence, get_client().lock(f"{name}:{page}").locked()))
    return HttpResponse("done")


@locked_view("{name}", busy=503, retry_after=2.5)
def busy_503(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse("done")


@async_unsafe("no event loop")  # as a page with the user's name
def _busy(request: HttpRequest, busy: holdfast.LockTimeout) -> HttpResponse:
    return HttpResponse(f"{request.path}: {busy}", status=423)


@locked_view("{name}", busy=_busy, timeout=0.5)  # long enough to learn who holds it
def busy_function(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse("done")


@locked_view("{name}", permits=2)
def two(request: HttpRequest, name: str) -> HttpResponse:
    return HttpResponse("done")


@locked_view("{name}")
def loses(request: HttpRequest, name: str) -> HttpResponse:
    get_client().lock(name).force_release(request.hold.fence)
    return HttpResponse("done")


@locked_view("{name}")
def commits(request: HttpRequest, name: str) -> HttpResponse:
    told.append(connection.in_atomic_block)
    transaction.on_commit(lambda: told.append(get_client().lock(name).locked()))
    return HttpResponse("done")


@locked_view("{name}")
async def waits(request: HttpRequest, name: str) -> HttpResponse:
    told.append(await get_client().aio.lock(name).locked())
    return HttpResponse("done")


async def blocks(request: HttpRequest, name: str) -> HttpResponse:
    with get_client().lock(name).hold(timeout=2):
        return HttpResponse("done")


def nests(request: HttpRequest, name: str) -> HttpResponse:
    lock = get_client().lock(name)
    with lock, lock as hold:
        told.append(hold.fence)
        return HttpResponse(str(lock.count()))


class Plain(View):
    @method_decorator(locked_view("{name}"))
    def post(self, request: HttpRequest, name: str) -> HttpResponse:
        told.append(request.hold.valid)
        return HttpResponse("done")


@method_decorator(locked_view("{name}:{request.method}"), name="dispatch")
class Dispatched(View):
    def get(self, request: HttpRequest, name: str) -> HttpResponse:
        told.append(get_client().lock(f"{name}:GET").locked())
        return HttpResponse("done")


class Waits(View):
    async def get(self, request: HttpRequest, name: str) -> HttpResponse:
        told.append(await get_client().aio.lock(name).locked())
        return HttpResponse("done")


class WaitsWrongly(Waits):
    @method_decorator(locked_view("{name}"))
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        return super().dispatch(request, *args, **kwargs)


urlpatterns = [
    path("plain/<str:name>", plain),
    path("plain/<str:name>/<int:page>", plain),
    path("busy_503/<str:name>", busy_503),
    path("busy_function/<str:name>", busy_function),
    path("two/<str:name>", two),
    path("loses/<str:name>", loses),
    path("commits/<str:name>", commits),
    path("waits/<str:name>", waits),
    path("blocks/<str:name>", blocks),
    path("nests/<str:name>", nests),
    path("class/plain/<str:name>", Plain.as_view()),
    path("class/dispatched/<str:name>", Dispatched.as_view()),
    path("class/waits/<str:name>", locked_view("{name}")(Waits.as_view())),
    path("class/wrong/<str:name>", WaitsWrongly.as_view()),
]


def get(where: str, name: str, method: str = "get") -> Any:
    answer: Any = getattr(Client(), method)(f"/{where}/{name}")
    return answer


def test_a_view_runs_under_the_lock_of_its_arguments(name: str) -> None:
    assert get("plain", name).content == b"done"
    assert get("plain", f"{name}/7").content == b"done"
    (first, held), (second, held_too) = told
    assert first > 0 < second
    assert held is held_too is True
    assert not get_client().lock(f"{name}:1").locked()


def test_several_masters_take_another_url(quorum: str, name: str) -> None:
    with override_settings(HOLDFAST={"URL": quorum}), holdfast.connect(quorum) as other:
        assert get("plain", name).content == b"done"
        assert told[0][1] is True
        with other.lock(f"{name}:1"):
            assert get("plain", name).status_code == 409


def test_a_busy_view_is_answered_as_it_says(held: holdfast.Lock, name: str) -> None:
    answer = get("busy_503", name)
    assert (answer.status_code, answer["Retry-After"]) == (503, "3")
    with get_client().lock(f"{name}:1", owner="another"):
        answer = get("plain", name)
        assert (answer.status_code, answer["Retry-After"]) == (409, "1")
    answer = get("busy_function", name)
    assert answer.status_code == 423
    assert b"at last by 'another'" in answer.content, answer.content


def test_permits_let_so_many_views_run(client: holdfast.Client, name: str) -> None:
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats:
        assert get("two", name).status_code == 200
        with seats:
            assert get("two", name).status_code == 409


def test_an_outage_is_503_and_logged(
    held: holdfast.Lock, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with override_settings(HOLDFAST={"URL": f"redis://127.0.0.1:{free_port()}"}):
        answer = get("plain", name)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert [each.levelname for each in caplog.records if each.name == "holdfast"] == ["ERROR"]
    assert "ConnectError at '/plain/" in caplog.text


def test_a_lock_that_was_lost_is_an_error_of_the_view(name: str) -> None:
    logging.getLogger("django.request").disabled = True
    with pytest.raises(holdfast.LockLost):
        get("loses", name)


def test_a_view_commits_before_the_release(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    assert get("commits", name).status_code == 200
    assert told == [True, True]  # in a transaction; at its commit the lock is held


FREELY = transaction.non_atomic_requests
LOCKED = locked_view("{name}")
ONCE = idempotent_view("x", required=False)


@pytest.mark.parametrize(
    ("decorators", "atomic"),
    [
        ([LOCKED], True),
        ([ONCE], True),
        ([ONCE, LOCKED], True),
        ([LOCKED, FREELY], False),
        ([FREELY, LOCKED], False),
        ([FREELY, ONCE], False),
        ([FREELY, ONCE, never_cache, LOCKED], False),
        ([ONCE, FREELY, LOCKED], False),
    ],
)
def test_a_view_may_ask_for_no_transaction(
    decorators: list[Any], atomic: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inside(request: HttpRequest, name: str) -> HttpResponse:
        told.append(connection.in_atomic_block)
        return HttpResponse("done")

    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    request = HttpRequest()
    request.method, request._body = "POST", b""
    view: Any = functools.reduce(lambda view, decorate: decorate(view), decorators[::-1], inside)
    assert BaseHandler().make_view_atomic(view)(request, name).content == b"done"
    assert told == [atomic]


def test_an_async_view_has_no_transactions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
    for view in (waits, LOCKED(Waits.as_view())):
        with pytest.raises(RuntimeError, match="ATOMIC_REQUESTS with async views"):
            asyncio.run(view(HttpRequest(), name=name))


def test_views_of_classes_may_be_decorated(name: str) -> None:
    assert get("class/plain", name, "post").content == b"done"
    assert get("class/dispatched", name).content == b"done"
    assert told == [True, True]


def test_async_views_may_be_decorated(held: holdfast.Lock, name: str) -> None:
    async def main() -> None:
        site = AsyncClient()
        for where in ("waits", "class/waits"):
            assert (await site.get(f"/{where}/{name}")).status_code == 409
            assert (await site.get(f"/{where}/{name}-free")).content == b"done"
        with pytest.raises(TypeError, match=r"as_view\(\)"):
            await site.get(f"/class/wrong/{name}-free")

    asyncio.run(main())
    assert told == [True, True]


class User:
    @property
    @async_unsafe("no event loop")  # it asks the database
    def pk(self) -> str:
        return "ann"


def test_functions_for_an_async_view_may_ask_the_database(name: str) -> None:
    @locked_view(name + ":{request.user.pk}", timeout=lambda request: len(User().pk), busy=_busy)
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse("done")

    request = HttpRequest()
    request.user = User()
    assert asyncio.run(view(request)).content == b"done"
    with get_client().lock(f"{name}:ann", owner="another"):
        assert asyncio.run(view(request)).status_code == 423


ASGI = """
import os
import django
from django.conf import settings

settings.configure(
    HOLDFAST={"URL": os.environ["HOLDFAST_URL"]}, ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"]
)
django.setup()

from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.urls import path
from holdfast.contrib.django import locked_view

served = []


def deadline(request):
    return float(request.headers.get("X-Seconds-Left", 30))


@locked_view("{name}", timeout=deadline)
async def work(request, name, who):
    served.append(who)
    return HttpResponse(",".join(served))


urlpatterns = [path("<str:name>/<str:who>", work)]
app = get_asgi_application()
"""


def test_a_client_that_hangs_up_leaves_the_queue_of_an_async_view(
    server: Server, client: holdfast.Client, name: str, tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn")
    tmp_path.joinpath("asgi_site.py").write_text(ASGI)
    port, lock = free_port(), client.lock(name)

    def ask(who: str, left: str = "30") -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"/{name}/{who}", headers={"X-Seconds-Left": left})
        return connection

    with programs(tmp_path, HOLDFAST_URL=server.tcp) as start:
        command = ["-m", "uvicorn", "asgi_site:app", "--port", str(port), "--log-level", "warning"]
        process = start(*command)
        until(lambda: listens(port, process), 30)
        with lock:
            for which in range(3):
                dead = ask(f"dead{which}")
                until(lambda: lock.inspect().waiters == 1, 20)
                dead.close()
                until(lambda: lock.inspect().waiters == 0, 20)
            late = ask("late", "-1")
            assert late.getresponse().status == 409
            late.close()
            live = ask("live")
            until(lambda: lock.inspect().waiters == 1, 20)
        assert live.getresponse().read() == b"live"
        live.close()
    until(lambda: not lock.locked())


def test_a_blocking_lock_in_an_async_view_is_refused_and_in_a_plain_one_not(name: str) -> None:
    async def main() -> None:
        site = AsyncClient()
        with pytest.raises(RuntimeError, match="event loop"):
            await site.get(f"/blocks/{name}")
        together = [site.get(f"/nests/{name}") for _ in range(5)]
        assert [each.content for each in await asyncio.gather(*together)] == [b"2"] * 5

    asyncio.run(main())
    assert len(set(told)) == 5
    assert not get_client().lock(name).locked()


def test_arguments_of_the_decorators_are_checked() -> None:
    for wrong in (200, 600):
        with pytest.raises(ValueError, match="busy must be"):
            locked_view("x", busy=wrong)
    with pytest.raises(TypeError, match=r'locked_view\("report"\)'):
        locked_view(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no parameter"):
        locked_view("{item}")(lambda request: None)
    with pytest.raises(ValueError, match="retry_after must be"):
        locked_view("x", retry_after=-1)
    with pytest.raises(ValueError, match="lease must be"):
        locked_command("x", lease=0)


# ----------------------------------------------------------------------- Commands


class Command(BaseCommand):
    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("name")
        parser.add_argument("--lose", action="store_true")

    @locked_command("{name}")
    def handle(self, *args: Any, name: str, **options: Any) -> str:
        if options["lose"]:
            get_client().lock(name).force_release(self.hold.fence)
        return f"{get_client().lock(name).locked()}"


def run(*arguments: str) -> str:
    said: str = call_command(Command(stdout=io.StringIO()), *arguments)
    return said


def test_a_command_runs_under_the_lock_of_its_options(name: str) -> None:
    assert run(name) == "True"
    assert not get_client().lock(name).locked()


TERMINATED = """
import signal
import sys
import django
from django.conf import settings

settings.configure(HOLDFAST={"URL": sys.argv[1]})
django.setup()

from django.core.management.base import BaseCommand
from holdfast.contrib.django import locked_command


class Command(BaseCommand):
    requires_system_checks = []

    @locked_command(sys.argv[2], lease=60)
    def handle(self, *args, **options):
        print("held", flush=True)
        signal.pause()


Command().run_from_argv(["manage.py", "work"])
"""


def test_a_command_that_sigterm_ends_releases_its_lock(
    server: Server, client: holdfast.Client, name: str, tmp_path: Path
) -> None:
    with programs(tmp_path) as start:
        process = start("-c", TERMINATED, server.tcp, name)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert client.lock(name).locked()
        assert ended(process) == ""
    assert process.returncode == 143
    assert not client.lock(name).locked()


def test_a_command_that_cannot_run_says_why(held: holdfast.Lock, name: str) -> None:
    with pytest.raises(CommandError, match="another one runs: .*held by another owner") as busy:
        run(name)
    with pytest.raises(CommandError, match="lost") as lost:
        run(f"{name}-free", "--lose")
    with (
        override_settings(HOLDFAST={"URL": f"redis://127.0.0.1:{free_port()}"}),
        pytest.raises(CommandError, match="cannot reach") as unreachable,
    ):
        run(name)
    statuses = [each.value.returncode for each in (busy, lost, unreachable)]
    assert statuses == [75, 79, 69]


# ----------------------------------------------------------------------- Settings

WRONG: list[tuple[Any, str]] = [
    (None, r'HOLDFAST must be a dict with the key "URL"'),
    ({}, r'HOLDFAST must be a dict with the key "URL"'),
    ({"URL": "http://x"}, r"HOLDFAST\['URL'\]: "),
    ({"URL": None}, r"HOLDFAST\['URL'\]: url must be str"),
    ({"URL": "redis://x", "LEESE": 5}, r"HOLDFAST\['LEESE'\]: .* may have LAZY, CONNECT_TIMEOUT"),
    ({"URL": "redis://x", "CONNECT_TIMEOUT": -1}, r"HOLDFAST\['CONNECT_TIMEOUT'\]: "),
    ({"URL": "redis://x", "LAZY": "no"}, r"HOLDFAST\['LAZY'\]: "),
    ({"URL": "redis://x", "CLIENT": "a.b"}, r"HOLDFAST\['URL'\]: "),
    ({"CLIENT": "holdfast.testing.Nothing"}, r"HOLDFAST\['CLIENT'\]: .*Nothing"),
    ({"CLIENT": dict}, r"HOLDFAST\['CLIENT'\] made no client"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_a_wrong_setting_is_named(wrong: Any, message: str) -> None:
    with override_settings(HOLDFAST=wrong):
        with pytest.raises(ImproperlyConfigured, match=message):
            get_client()
        with pytest.raises(CommandError, match=message) as checked:
            call_command("check")
    assert "holdfast.E001" in str(checked.value)


def test_a_right_setting_passes_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    with override_settings(HOLDFAST={"URL": "redis://localhost:1", "LAZY": False}):
        call_command("check")  # it sends nothing
    assert "no issues" in capsys.readouterr().out


def test_a_client_for_tests_may_be_set() -> None:
    before = get_client()
    with override_settings(HOLDFAST={"CLIENT": "holdfast.testing.MemoryClient"}):
        assert isinstance(get_client(), holdfast.testing.MemoryClient)
        assert get_client() is get_client()
        assert get("plain", "x").content == b"done"
    assert get_client() is not before
    with pytest.raises(holdfast.ClosedError):
        before.ping()


# -------------------------------------------------------------------------- Cache


def test_the_cache_makes_locks(server: Server, raw: redis.Redis, name: str) -> None:
    backends = {
        kind: {"BACKEND": f"{module}.RedisCache", "LOCATION": server.tcp}
        for kind, module in (
            ("default", "holdfast.contrib.django.cache"),
            ("theirs", "django_redis.cache"),
        )
    }
    with override_settings(CACHES=backends):
        cache = caches["default"]
        cache.set(name, 7)
        assert cache.get(name) == 7
        lock = cache.lock(f"{name}:lock", timeout=60)
        theirs = caches["theirs"].lock(f"{name}:lock", timeout=60)
        with lock:
            assert raw.type(f":1:{name}:lock") == b"hash"
            assert raw.pttl(f":1:{name}:lock") > 30_000
            assert theirs.acquire(blocking=False) is False
            with pytest.raises(redis.exceptions.LockError):
                cache.lock(f"{name}:lock", blocking_timeout=0.01).__enter__()
        with theirs:
            assert lock.acquire(blocking=False) is False
        with cache.lock(f"{name}:lock", version=2):
            assert raw.exists(f":2:{name}:lock")
        for each in caches.all():
            each.client.get_client().connection_pool.disconnect()


# ----------------------------------------------------------------------- gunicorn

SITE = """
import os
import time

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, HOLDFAST={"URL": os.environ["HOLDFAST_URL"]}
)
application = get_wsgi_application()

from holdfast.contrib.django import get_client, locked_view

get_client().ping()  # with --preload it is the master's


@locked_view("slow", lease=60, renew=True)
def slow(request):
    waits = get_client().lock("waits", lease=60)
    with waits.hold():
        return HttpResponse(str(os.getpid()))


def leaves(request, name):
    get_client().lock(name, lease=60, renew=True).acquire()
    return HttpResponse(str(os.getpid()))


urlpatterns = [path("slow", slow), path("leaves/<str:name>", leaves)]
"""


def test_gunicorn_releases_what_its_workers_hold(
    server: Server, client: holdfast.Client, tmp_path: Path
) -> None:
    tmp_path.joinpath("site_.py").write_text(SITE)
    port = free_port()
    slow, waits, left = (client.lock(each) for each in ("slow", "waits", "left"))
    with (
        programs(tmp_path, HOLDFAST_URL=server.tcp) as start,
        ThreadPoolExecutor(2) as pool,
    ):
        site = start(*gunicorn(port, "--preload"), "site_")
        until(lambda: listens(port, site), 30)

        # After SIGKILL a lock ends with its lease, and another worker answers.
        with waits:
            killed = pool.submit(Answer, port, "GET", "/slow")
            until(lambda: waits.inspect().waiters == 1, 20)
            assert Answer(port, "GET", "/slow").status == 409
            holder: Any = slow.inspect().holders[0].origin
            os.kill(holder.pid, signal.SIGKILL)
            with pytest.raises(OSError):  # noqa: PT011
                killed.result()
            assert slow.locked()
            slow.force_release(slow.inspect().fence)  # as if its lease had ended

        # After SIGTERM a request finishes; a lock that was left behind is free at once, not after
        # 60 s.
        assert Answer(port, "GET", "/leaves/left").status == 200
        assert left.locked()
        with waits:
            last = pool.submit(Answer, port, "GET", "/slow")
            until(lambda: waits.inspect().waiters == 1, 20)
            site.send_signal(signal.SIGTERM)
        assert last.result().status == 200
        said = site.communicate(timeout=40)[0]
        assert site.returncode == 0, said
        assert not slow.locked()
        assert not left.locked()
