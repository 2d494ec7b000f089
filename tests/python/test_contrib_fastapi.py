"""holdfast.contrib.fastapi, under uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, until
from running import Answer, free_port, listens, programs

pytest.importorskip("fastapi")

from fastapi import FastAPI

from holdfast.contrib._asgi import Connected, HungUpError
from holdfast.contrib.fastapi import Locked, lifespan

APP = """
import asyncio
import os
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

import holdfast
from fastapi import Depends, FastAPI, Path, Request
from holdfast.contrib.fastapi import Locked, get_client, lifespan

down = holdfast.connect("redis://127.0.0.1:1", lazy=True, connect_timeout=0.2)


@asynccontextmanager
async def mine(app: FastAPI):
    async with lifespan(os.environ["HOLDFAST_URL"])(app):
        app.state.mine = 7
        left = app.state.holdfast.aio.lock("left", lease=60, renew=True, reentrant=False)
        app.state.left = await left.hold()
        yield


app = FastAPI(lifespan=mine)
Client = Annotated[holdfast.Client, Depends(get_client)]


# With a loss that its renewal finds soon.
SOON = {"cancel_on_lost": True, "lease": 4, "renew": True}


def hold(name, **options):
    return Annotated[holdfast.AsyncHold, Locked(name, **options)]


@app.get("/typed/{item}/{key}")
async def typed(item: int, key: UUID, client: Client, hold: hold("{item}:{key}")):
    return {"held": await client.aio.lock(f"{item}:{key}").locked(), "fence": hold.fence}


@app.get("/named/{number}", dependencies=[Locked("{number}")])
async def named(other: Annotated[int, Path(alias="number")], client: Client):
    return await client.aio.lock("7").locked()


@app.get("/plain/{name}", dependencies=[Locked("{name}", timeout=0.01, retry_after=2.5)])
def plain(name: str, client: Client):
    return client.lock(name).locked()


@app.get("/quiet/{name}", dependencies=[Locked("{name}", tell_owner=False)])
async def quiet(name: str):
    return True


@app.get("/two/{name}", dependencies=[Locked("{name}", permits=2)])
async def two(name: str):
    return True


@app.get("/waits/{name}")
async def waits(name: str, client: Client, hold: hold("{name}:outer", **SOON)):
    async with client.aio.lock(name).hold():
        return await client.aio.lock("left").locked()


@app.get("/loses/{name}")
async def loses(name: str, client: Client, hold: hold("{name}")):
    await client.aio.lock(name).force_release(hold.fence)
    return "not told"


@app.get("/raises/{name}")
async def raises(name: str, hold: hold("{name}")):
    raise KeyError(name)


@app.get("/field/{name}", dependencies=[Locked("{missing}")])
async def field(name: str):
    return True


@app.get("/down/{name}", dependencies=[Locked("{name}")])
async def is_down(name: str):
    return True


@app.get("/blocks/{name}")
async def blocks(name: str, client: Client):
    with client.lock(name).hold(timeout=2):
        await asyncio.sleep(0.2)


def entered(name: str, client: Client):
    with client.lock(name) as hold:
        yield hold


@app.get("/thread/{name}")
def thread(name: str, client: Client, outer: Annotated[holdfast.Hold, Depends(entered)]):
    inner = client.lock(name + ":inner")
    with inner, inner as hold:
        return [outer.fence, hold.fence, inner.count()]


served = []


def deadline(request):
    left = request.headers.get("X-Seconds-Left")
    return None if left is None else float(left)


@app.post("/patient/{name}/{who}", dependencies=[Locked("{name}", timeout=deadline)])
async def patient(name: str, who: str, request: Request):
    served.append(who)
    return {"served": served, "body": len(await request.body())}


other = FastAPI()
other.dependency_overrides[get_client] = lambda: down
other.include_router(app.router)
app.mount("/other", other)
"""


class Site:
    """The application, and its answers."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port

    def get(self, path: str) -> Answer:
        return Answer(self.port, "GET", path)


@pytest.fixture(scope="module")
def site(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(server.tcp, tmp_path_factory.mktemp("site")) as site:
        yield site


@contextlib.contextmanager
def serving(url: str, folder: Path) -> Iterator[Site]:
    folder.joinpath("app.py").write_text(APP)
    port = free_port()
    with programs(folder, HOLDFAST_URL=url) as start:
        process = start("-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning")
        until(lambda: listens(port, process), 30)
        yield Site(process, port)


def test_a_route_runs_under_the_lock_of_its_path(site: Site, client: holdfast.Client) -> None:
    key = "6f1c6f0e-2d4b-4a55-9c93-0d3f5e9b7c11"
    for path in (f"/typed/7/{key}", f"/typed/07/{key.upper()}"):
        answer = site.get(path)
        assert json.loads(answer.text)["held"] is True, answer.text
    lock = client.lock(f"7:{key}")
    assert not lock.locked()
    with lock:
        assert site.get(f"/typed/07/{key.upper()}").status == 409
        assert site.get(f"/typed/8/{key}").status == 200
    assert site.get("/named/07").text == "true"
    assert site.get(f"/typed/seven/{key}").status == 422
    assert not client.lock(f"seven:{key}").locked()


def test_several_masters_take_another_url(quorum: str, name: str, tmp_path: Path) -> None:
    with serving(quorum, tmp_path) as site, holdfast.connect(quorum) as client:
        answer = site.get(f"/thread/{name}")
        assert answer.status == 200, answer.text
        lock = client.lock(name, owner="another")
        until(lambda: lock.acquire(timeout=0))  # it is released after its answer
        answer = site.get(f"/plain/{name}")
        assert (answer.status, json.loads(answer.text)["detail"]["owner"]) == (409, "another")
        lock.release()


def test_a_busy_route_says_who_holds_the_lock(
    site: Site, client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name, owner="another")
    with lock:
        answer = site.get(f"/plain/{name}")
        quiet = site.get(f"/quiet/{name}")
    assert (answer.status, answer.retry_after) == (409, "3")
    told = json.loads(answer.text)["detail"]
    assert told.pop("held_for") >= 0
    assert told == {
        "message": "another owner holds the lock",
        "lock": name,
        "owner": "another",
        "waiters": 0,
    }
    assert (quiet.status, quiet.retry_after) == (409, "1")
    assert "owner" not in quiet.text.replace("another owner", "")
    assert site.get(f"/plain/{name}").text == "true"
    assert site.get(f"/quiet/{name}").text == "true"


def test_a_kept_lock_is_told_as_kept(site: Site, client: holdfast.Client, name: str) -> None:
    client.lock(name, owner="another").hold().keep(60)
    told = json.loads(site.get(f"/plain/{name}").text)["detail"]
    assert told["message"] == "the work of the last holder has ended, and the lock is kept"
    assert told["owner"] == "another"
    assert 0 < told["kept_for"] <= 60


def test_permits_let_so_many_requests_in(site: Site, client: holdfast.Client, name: str) -> None:
    seats = client.lock(name, permits=2, reentrant=False).shared()
    with seats:
        assert site.get(f"/two/{name}").status == 200
        with seats:
            assert site.get(f"/two/{name}").status == 409


def test_an_outage_is_never_told_as_busy(site: Site, name: str) -> None:
    answer = site.get(f"/other/down/{name}")
    assert (answer.status, answer.retry_after) == (503, "1"), answer.text
    assert "cannot be acquired" in answer.text


def test_a_request_that_lost_its_lock_fails(
    site: Site, client: holdfast.Client, raw: redis.Redis, name: str
) -> None:
    answer = site.get(f"/loses/{name}")
    assert answer.status == 500
    assert "lost while the request ran" in answer.text
    # With cancel_on_lost the request does not run to its end.
    with client.lock(name), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(site.get, f"/waits/{name}")
        until(lambda: client.lock(name).inspect().waiters == 1, 20)
        raw.delete(f"{name}:outer")
        answer = waiting.result()
    assert answer.status == 500
    assert "lost while the request ran" in answer.text


def test_a_blocking_lock_in_an_async_def_is_refused(
    site: Site, client: holdfast.Client, name: str
) -> None:
    answer = site.get(f"/blocks/{name}")
    assert answer.status == 500
    assert not client.lock(name).locked()


def test_plain_routes_and_dependencies_that_yield_exclude_each_other(
    site: Site, client: holdfast.Client, name: str
) -> None:
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(site.get, [f"/thread/{name}"] * 10))
    assert [each.status for each in answers] == [200] * 10, answers[0].text
    fences = [json.loads(each.text) for each in answers]
    assert len({outer for outer, _, _ in fences}) == len({inner for _, inner, _ in fences}) == 10
    assert {count for _, _, count in fences} == {2}
    until(lambda: not client.lock(name).locked(), 20)  # the last lock is released after its answer


def test_an_error_of_the_route_stays_what_it_is(
    site: Site, client: holdfast.Client, name: str
) -> None:
    answer = site.get(f"/raises/{name}")
    assert (answer.status, answer.text) == (500, "Internal Server Error")
    assert not client.lock(name).locked()
    assert site.get(f"/field/{name}").status == 500


def post(site: Site, path: str, body: bytes = b"", left: str = "") -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=30)
    connection.request("POST", path, body, {"X-Seconds-Left": left} if left else {})
    return connection


def test_in_a_storm_of_retries_the_client_that_is_still_there_is_served_next(
    site: Site, client: holdfast.Client, name: str
) -> None:
    lock = client.lock(name)
    with lock:
        for number in range(1, 6):
            dead = post(site, f"/patient/{name}/dead{number}", b"x" * 1000 * number)
            until(lambda: lock.inspect().waiters == 1, 20)
            dead.close()
            until(lambda: lock.inspect().waiters == 0, 20)  # the acquire has left the queue
        live = post(site, f"/patient/{name}/live", b"y" * 70_000)
        until(lambda: lock.inspect().waiters == 1, 20)
    answer = live.getresponse()
    assert answer.status == 200
    assert json.loads(answer.read()) == {"served": ["live"], "body": 70_000}
    live.close()
    until(lambda: not lock.locked())


def test_the_deadline_of_a_request_is_passed_on(
    site: Site, client: holdfast.Client, name: str
) -> None:
    with client.lock(name):
        for left in ("0.05", "0", "-1"):
            refused = post(site, f"/patient/{name}/late", left=left)
            assert refused.getresponse().status == 409
            refused.close()


def test_a_client_that_hangs_up_as_its_request_gets_the_lock_leaves_it_free(
    client: holdfast.Client, name: str
) -> None:
    """The cancellation may arrive before, with, or after the grant."""
    outcomes = set()

    async def request(hangup: asyncio.Event) -> str:
        async def receive() -> dict[str, Any]:
            await hangup.wait()
            return {"type": "http.disconnect"}

        try:
            async with Connected(receive), client.aio.lock(name).hold():
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # nothing of the cancellation is left
        except HungUpError:
            return "gone"
        return "served"

    async def main() -> None:
        for turns in range(12):
            hangup = asyncio.Event()
            hold = await client.aio.lock(name).hold()
            asking = asyncio.create_task(request(hangup))
            while not (await client.aio.lock(name).inspect()).waiters:
                pass
            await hold.release()
            for _ in range(turns):
                await asyncio.sleep(0)
            hangup.set()
            outcomes.add(await asking)
            cancelled = asyncio.create_task(request(asyncio.Event()))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled

    asyncio.run(asyncio.wait_for(main(), 50))
    assert "gone" in outcomes
    until(lambda: not client.lock(name).locked())  # a cancelled wait gives the lock back soon


def test_arguments_are_checked() -> None:
    wrong: Any = Locked
    with pytest.raises(TypeError, match=r'Locked\("report"\)'):
        wrong(7)
    with pytest.raises(ValueError, match="lease must be"):
        Locked("x", lease=0)
    with pytest.raises(ValueError, match="expected '}'"):
        Locked("x:{item")
    with pytest.raises(TypeError, match="retry_after"):
        wrong("x", retry_after="soon")


def test_a_wrong_url_ends_the_start() -> None:
    async def start() -> None:
        async with lifespan("http://localhost")(FastAPI()):
            raise AssertionError("opened")

    with pytest.raises((ValueError, holdfast.UnsupportedError)):
        asyncio.run(start())


def test_sigterm_releases_what_the_application_holds(
    site: Site, client: holdfast.Client, name: str
) -> None:
    left = client.lock("left")
    assert left.locked()
    for path in ("other/down", "loses", "field"):  # it is logged
        assert site.get(f"/{path}/{name}").status >= 500
    with ThreadPoolExecutor(1) as pool:
        with client.lock(name):
            last = pool.submit(site.get, f"/waits/{name}")
            until(lambda: client.lock(name).inspect().waiters == 1, 20)
            site.process.send_signal(signal.SIGTERM)
        assert last.result().text == "true"  # held until the end of the last request
    said = site.process.communicate(timeout=30)[0]
    assert not left.locked(), said
    assert not client.lock(f"{name}:outer").locked()
    for logged in ("ConnectError at '/other/down/", "the hold of lock", "no parameter of the path"):
        assert logged in said
    assert "async with client.aio.lock(name)" in said  # of /blocks
