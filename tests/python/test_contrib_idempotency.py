"""The header Idempotency-Key, with the test clients of FastAPI and Django."""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import holdfast
from conftest import Server, Thread, queue, refused

pytest.importorskip("django")
pytest.importorskip("fastapi")

from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.test import AsyncClient, Client
from django.test.utils import override_settings
from django.urls import path
from django.utils.asyncio import async_unsafe
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.http import require_http_methods
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette prefers httpx2
    from fastapi.testclient import TestClient

import django_site  # noqa: F401
from holdfast.contrib._idempotency import _key
from holdfast.contrib.django import get_client as django_client
from holdfast.contrib.django import idempotent_view, locked_view
from holdfast.contrib.fastapi import get_client, idempotent_route, lifespan

PREFIX = "idem"

Work = Callable[[], tuple[int, bytes, str]]


class Vendor:
    """The work of the handlers, which each test sets, and the number of times that it was done."""

    def __init__(self) -> None:
        self.work: Work = lambda: (201, b'{"payment": 1}', "application/json")
        self.calls = 0
        self.bodies: list[bytes] = []

    def __call__(self, body: bytes) -> tuple[int, bytes, str]:
        self.calls += 1
        self.bodies.append(body)
        return self.work()


vendor = Vendor()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    vendor.__init__()  # type: ignore[misc]


class Told:
    """An answer."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        self.kind = headers["Content-Type"]

    def problem(self, status: int, kind: str) -> dict[str, Any]:
        assert self.status == status, self.body
        assert self.kind == "application/problem+json"
        told: dict[str, Any] = json.loads(self.body)
        assert told["type"] == f"urn:holdfast:idempotency:{kind}"
        assert told["status"] == status
        assert "Idempotent-Replayed" not in self.headers
        return told

    def replays(self, first: Told) -> None:
        assert (self.status, self.body, self.kind) == (first.status, first.body, first.kind)
        assert self.headers["Idempotent-Replayed"] == "true"
        assert "Idempotent-Replayed" not in first.headers


class Site:
    """An application, with requests that have a key, quoted or not."""

    def post(
        self,
        key: str | None,
        body: bytes = b"{}",
        *,
        path: str = "/pay",
        user: str = "ann",
        method: str = "POST",
    ) -> Told:
        headers = {"X-User": user}
        if key is not None:
            headers["Idempotency-Key"] = key
        return self.ask(method, path, body, headers)

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        raise NotImplementedError


# -------------------------------------------------------------------------- FastAPI


def user_of(request: Request) -> str:
    return str(request.state.user)


def authenticated(request: Request) -> None:
    request.state.user = request.headers["X-User"]
    if request.state.user == "stranger":
        raise HTTPException(401, "who are you?")


pay = APIRouter(route_class=idempotent_route(PREFIX, scope=user_of, retry_after=2))
free = APIRouter(route_class=idempotent_route(PREFIX, required=False))
outer = APIRouter(prefix="/outer")


@pay.api_route("/pay", methods=["POST", "PATCH", "PUT"], dependencies=[Depends(authenticated)])
async def pays(request: Request) -> Response:
    body = await request.body()
    status, answer, kind = await asyncio.to_thread(vendor, body)
    return Response(answer, status, media_type=kind)


@pay.post("/plain", dependencies=[Depends(authenticated)])
def pays_plainly(data: dict[str, Any]) -> Response:
    status, answer, kind = vendor(json.dumps(data).encode())
    return Response(answer, status, media_type=kind)


@pay.post("/typed", dependencies=[Depends(authenticated)], status_code=202)
def typed(amount: int) -> dict[str, int]:
    vendor(b"")
    return {"amount": amount}


def reads() -> None:
    """Run a handler that does nothing once."""


@pay.post("/streamed", dependencies=[Depends(authenticated)])
def streamed() -> StreamingResponse:
    vendor(b"")
    return StreamingResponse(iter([b"one", b"two"]), media_type="text/plain")


@pay.post("/custom", dependencies=[Depends(authenticated)])
def custom() -> None:
    vendor(b"")
    raise LookupError


@free.post("/free")
async def costs_nothing() -> int:
    vendor(b"")
    return vendor.calls


async def not_found(request: Request, failed: Exception) -> Response:
    return JSONResponse({"lost": True}, 404)


outer.include_router(pay)


class FastAPISite(Site):
    prefix = ""

    def __init__(self, client: TestClient) -> None:
        self.client = client

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        path = self.prefix + path
        told = self.client.request(method, path, content=body, headers=headers)
        return Told(told.status_code, told.headers, told.content)


class PlainSite(FastAPISite):
    """Plain functions, in a router in a router."""

    prefix = "/outer"

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        if method == "POST" and path.startswith("/pay"):
            path = path.replace("/pay", "/plain")
        return super().ask(method, path, body, {**headers, "Content-Type": "application/json"})


@pytest.fixture(scope="module")
def fastapi_client(server: Server) -> Iterator[TestClient]:
    app = FastAPI(lifespan=lifespan(server.tcp))
    app.include_router(pay)
    app.include_router(outer)
    app.include_router(free)
    app.add_exception_handler(LookupError, not_found)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


# --------------------------------------------------------------------------- Django


@async_unsafe("no event loop")  # as request.user
def header_user(request: HttpRequest) -> str:
    return str(request.headers["X-User"])


@idempotent_view(PREFIX, scope=header_user, retry_after=2)
def django_pays(request: HttpRequest) -> HttpResponse:
    status, answer, kind = vendor(request.body)
    return HttpResponse(answer, status=status, content_type=kind)


@idempotent_view(PREFIX, scope=header_user, retry_after=2)
async def django_awaits(request: HttpRequest) -> HttpResponse:
    status, answer, kind = await asyncio.to_thread(vendor, request.body)
    return HttpResponse(answer, status=status, content_type=kind)


@idempotent_view(PREFIX, required=False)
def django_free(request: HttpRequest) -> HttpResponse:
    vendor(b"")
    return HttpResponse(str(vendor.calls))


@idempotent_view(PREFIX, scope=header_user)
def django_streams(request: HttpRequest) -> StreamingHttpResponse:
    vendor(b"")
    return StreamingHttpResponse([b"one", b"two"])


@idempotent_view(PREFIX, scope=header_user)
def django_renders(request: HttpRequest) -> TemplateResponse:
    vendor(b"")
    template = engines["django"].from_string("paid {{ amount }}")
    return TemplateResponse(request, template, {"amount": 7})


@idempotent_view(PREFIX, scope=header_user)
def django_denies(request: HttpRequest) -> HttpResponse:
    vendor(b"")
    raise PermissionDenied


@idempotent_view(PREFIX, scope=header_user)
async def django_denies_later(request: HttpRequest) -> HttpResponse:
    vendor(b"")
    raise PermissionDenied


@idempotent_view(PREFIX, scope=header_user)
def _uploads(request: HttpRequest) -> HttpResponse:
    vendor(request.FILES["file"].read())
    return HttpResponse("kept")


def django_uploads(request: HttpRequest) -> HttpResponse:
    assert request.POST["a"] == "1"  # as the CSRF check does: then the body is gone
    response: HttpResponse = _uploads(request)
    return response


@idempotent_view(PREFIX, scope=header_user)
def django_commits(request: HttpRequest) -> HttpResponse:
    def committed() -> None:
        found = django_client().once_result(f"{PREFIX}:ann:{request.headers['Idempotency-Key']}")
        assert found is not None
        vendor(found.state.encode())

    vendor(b"atomic" if connection.in_atomic_block else b"")
    transaction.on_commit(committed)
    return HttpResponse("paid")


def _answer(body: bytes) -> HttpResponse:
    status, answer, kind = vendor(body)
    return HttpResponse(answer, status=status, content_type=kind)


part = locked_view(PREFIX + ":{part}")


@part
def under(request: HttpRequest, part: str = "under") -> HttpResponse:
    return _answer(b"under")


@idempotent_view(PREFIX, scope=header_user)
@require_http_methods(["POST"])
@locked_view(f"{PREFIX}:outer")
@locked_view(f"{PREFIX}:inner", busy=lambda request, busy: HttpResponse(b"busy", status=423))
def django_locks(request: HttpRequest) -> HttpResponse:
    return _answer(b"")


@idempotent_view(PREFIX, scope=header_user)
@locked_view(f"{PREFIX}:outer")
async def django_awaits_a_lock(request: HttpRequest) -> HttpResponse:
    return await asyncio.to_thread(_answer, b"")


@method_decorator(idempotent_view(PREFIX, scope=header_user), name="dispatch")
@method_decorator(locked_view(f"{PREFIX}:outer"), name="dispatch")
class DjangoLocks(View):
    def post(self, request: HttpRequest) -> HttpResponse:
        return _answer(b"")


@idempotent_view(PREFIX, scope=header_user)
def django_pays_then_locks(request: HttpRequest) -> HttpResponse:
    vendor(b"")
    answer: HttpResponse = under(request)
    return answer


@idempotent_view(PREFIX, scope=header_user)
@part
def django_pays_under_a_lock(request: HttpRequest, part: str = "pays") -> HttpResponse:
    vendor(b"")
    answer: HttpResponse = under(request)
    return answer


urlpatterns = [
    path("pay", django_pays),
    path("locks", django_locks),
    path("locks/awaits", django_awaits_a_lock),
    path("locks/class", DjangoLocks.as_view()),
    path("locks/under", django_pays_then_locks),
    path("locks/both", django_pays_under_a_lock),
    path("awaits", django_awaits),
    path("free", django_free),
    path("streams", django_streams),
    path("renders", django_renders),
    path("denies", django_denies),
    path("denies_later", django_denies_later),
    path("uploads", django_uploads),
    path("commits", django_commits),
]


class DjangoSite(Site):
    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        client = Client(raise_request_exception=False)
        told = client.generic(method, path, body, "application/json", headers=headers)
        return Told(told.status_code, told.headers, told.content)


class AsyncDjangoSite(Site):
    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Told:
        if path.startswith("/pay"):
            path = path.replace("/pay", "/awaits")

        async def ask() -> Any:
            client = AsyncClient(raise_request_exception=False)
            return await client.generic(method, path, body, "application/json", headers=headers)

        told = asyncio.run(ask())
        return Told(told.status_code, told.headers, told.content)


@pytest.fixture
def django(server: Server) -> Iterator[DjangoSite]:
    templates = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
    with override_settings(
        HOLDFAST={"URL": server.tcp}, ROOT_URLCONF=__name__, TEMPLATES=templates
    ):
        yield DjangoSite()


@pytest.fixture(params=[FastAPISite, PlainSite, DjangoSite, AsyncDjangoSite])
def site(request: pytest.FixtureRequest) -> Site:
    kind: type[Any] = request.param
    if issubclass(kind, FastAPISite):
        return kind(request.getfixturevalue("fastapi_client"))
    request.getfixturevalue("django")
    made: Site = kind()
    return made


@pytest.fixture
def fastapi(fastapi_client: TestClient) -> FastAPISite:
    return FastAPISite(fastapi_client)


# ---------------------------------------------------------------------------- Rules


def test_the_answer_is_replayed(site: Site, name: str, client: holdfast.Client) -> None:
    first = site.post(f'"{name}"')
    assert (first.status, first.body) == (201, b'{"payment": 1}')
    vendor.work = lambda: (200, b"another", "text/plain")
    site.post(f'"{name}"').replays(first)
    site.post(name).replays(first)  # the same key, quoted as Stripe's clients do
    assert vendor.calls == 1
    assert vendor.bodies == [b"{}"]
    found = client.once_result(f"{PREFIX}:ann:{name}")
    assert found is not None
    assert found.state == "done"
    assert 80_000 < (found.ttl or 0) <= 86_400


def test_a_body_that_is_no_text_is_replayed(site: Site, name: str) -> None:
    vendor.work = lambda: (200, b"\xff\x00\xfe", "application/octet-stream")
    first = site.post(name)
    assert first.body == b"\xff\x00\xfe"
    site.post(name).replays(first)


def test_a_refusal_of_the_handler_is_kept(site: Site, name: str) -> None:
    vendor.work = lambda: (402, b'{"declined": true}', "application/json")
    first = site.post(name)
    assert first.status == 402
    site.post(name).replays(first)
    assert vendor.calls == 1


def test_the_key_is_required(site: Site) -> None:
    site.post(None).problem(400, "missing")
    assert vendor.calls == 0


@pytest.mark.parametrize("key", ['"', "a,b", '"a", "b"', "a b", '"a', "a" * 256, '""', '"a\\b"'])
def test_a_key_that_is_none(site: Site, key: str) -> None:
    site.post(key).problem(400, "malformed")
    assert vendor.calls == 0


def test_a_quoted_key_may_have_spaces_quotes_and_braces(site: Site, name: str) -> None:
    first = site.post(f'"{name} \\"a}}:hf1:q, b\\""')
    assert first.status == 201
    site.post(f'"{name} \\"a}}:hf1:q, b\\""').replays(first)
    assert vendor.calls == 1


def test_a_key_is_what_the_table_says() -> None:
    """Also those of Spring."""
    table = Path(__file__).parents[1] / "interop" / "idempotency-keys.tsv"
    rows = [row for row in table.read_text().splitlines() if not row.startswith("#")]
    assert len(rows) > 20
    for row in rows:
        given, _, key = row.partition("\t")
        assert _key([given]) == (key or None), row


def test_another_request_with_the_key_is_refused(site: Site, name: str) -> None:
    assert site.post(name).status == 201
    site.post(name, b'{"other": 1}').problem(422, "other-request")
    site.post(name, path="/pay?other=1").problem(422, "other-request")
    assert vendor.calls == 1


def test_other_methods_need_no_key(site: Site, name: str) -> None:
    for _ in range(2):
        assert site.post(None, method="PUT").status == 201
        assert site.post(name, method="PUT").status == 201
    assert vendor.calls == 4
    assert site.post(name, method="PATCH").status == 201
    site.post(name).problem(422, "other-request")


def test_keys_of_two_users_do_not_meet(site: Site, name: str) -> None:
    for user in ("ann", "bob", "ann:x"):
        assert site.post(f"{name}:y", user=user).status == 201
    assert site.post(f"x:{name}:y").status == 201  # not the user ann:x with the key above
    assert vendor.calls == 4


def test_a_second_request_meanwhile_is_told_to_come_later(site: Site, name: str) -> None:
    began, go = threading.Event(), threading.Event()

    def work() -> tuple[int, bytes, str]:
        began.set()
        assert go.wait(60)
        return 201, b"slow", "text/plain"

    vendor.work = work
    thread = Thread(lambda: site.post(name))
    try:
        assert began.wait(60)
        second = site.post(name)
    finally:
        go.set()
    second.problem(409, "in-progress")
    assert second.headers["Retry-After"] == "2"
    thread.finish()
    first = thread.result
    assert isinstance(first, Told)
    assert (first.status, first.body) == (201, b"slow")
    site.post(name).replays(first)
    assert vendor.calls == 1


def fails() -> tuple[int, bytes, str]:
    raise ConnectionError("the vendor is gone")


@pytest.mark.parametrize(
    ("work", "note"),
    [
        (fails, "ConnectionError: the vendor is gone"),
        (lambda: (502, b"bad gateway", "text/plain"), "the answer was 502"),
    ],
)
def test_after_5xx_the_outcome_is_unknown_until_it_is_settled(
    site: Site, name: str, client: holdfast.Client, work: Work, note: str
) -> None:
    vendor.work = work
    assert site.post(name).status == (500 if work is fails else 502)
    vendor.work = Vendor().work
    for _ in range(2):
        again = site.post(name)
        again.problem(409, "outcome-unknown")
        assert "Retry-After" not in again.headers
    assert vendor.calls == 1
    found = client.once_result(f"{PREFIX}:ann:{name}")
    assert found is not None
    assert (found.state, found.note) == ("unknown", note)
    found.resolve({"status": 201, "content_type": "application/json", "text": "{}"})
    told = site.post(name)
    assert (told.status, told.kind, told.body) == (201, "application/json", b"{}")
    assert told.headers["Idempotent-Replayed"] == "true"
    found.resolve("nonsense", force=True)
    site.post(name).problem(500, "no-answer")
    found.resolve_error(ValueError("no"), force=True)
    site.post(name).problem(500, "no-answer")
    found.forget(force=True)
    assert site.post(name).status == 201
    assert vendor.calls == 2


def test_an_answer_that_is_too_long_is_sent_but_not_kept(site: Site, name: str) -> None:
    long = b"x" * (1 << 20)
    vendor.work = lambda: (200, long, "text/plain")
    assert site.post(name).body == long
    site.post(name).problem(409, "outcome-unknown")
    assert vendor.calls == 1


def test_an_answer_that_was_settled_meanwhile_is_sent(
    site: Site, name: str, client: holdfast.Client
) -> None:
    def work() -> tuple[int, bytes, str]:
        client.once_forget(f"{PREFIX}:ann:{name}", force=True)
        return 201, b"mine", "text/plain"

    vendor.work = work
    assert site.post(name).body == b"mine"


def test_without_the_server_nothing_runs(site: Site, name: str, raw: redis.Redis) -> None:
    key = queue(f"{PREFIX}:ann:{name}").removesuffix("q") + "r"
    raw.set(key, "no record")  # the server refuses each request for this key
    try:
        told = site.post(name)
    finally:
        raw.delete(key)
    told.problem(503, "unavailable")
    assert told.headers["Retry-After"] == "2"
    assert vendor.calls == 0
    assert site.post(name).status == 201


# --------------------------------------------------------------------- Each framework


def test_fastapi_checks_the_caller_before_it_replays(fastapi: FastAPISite, name: str) -> None:
    assert fastapi.post(name, user="stranger").status == 401
    assert fastapi.post(None, user="stranger").status == 401
    assert vendor.calls == 0
    assert fastapi.post(name, path="/typed?amount=no").status == 422
    first = fastapi.post(name, path="/typed?amount=7")  # the key was not used up
    assert (first.status, first.body) == (202, b'{"amount":7}')
    fastapi.post(name, path="/typed?amount=7").replays(first)
    assert vendor.calls == 1


def test_fastapi_keeps_what_exception_handlers_answer(fastapi: FastAPISite, name: str) -> None:
    first = fastapi.post(name, path="/custom")
    assert (first.status, first.body) == (404, b'{"lost":true}')
    fastapi.post(name, path="/custom").replays(first)
    assert vendor.calls == 1


def test_fastapi_keeps_a_streamed_answer(fastapi: FastAPISite, name: str) -> None:
    first = fastapi.post(name, path="/streamed")
    assert first.body == b"onetwo"
    fastapi.post(name, path="/streamed").replays(first)
    assert vendor.calls == 1


def test_fastapi_refuses_two_keys(fastapi_client: TestClient, name: str) -> None:
    headers = [("X-User", "ann"), ("Idempotency-Key", name), ("Idempotency-Key", name)]
    told = fastapi_client.post("/pay", headers=headers)
    assert told.status_code == 400
    assert vendor.calls == 0


def test_fastapi_shows_the_header() -> None:
    router = APIRouter(route_class=idempotent_route(PREFIX))
    router.post("/typed")(typed)
    router.get("/reads")(reads)
    within = APIRouter(prefix="/outer")
    within.include_router(router)
    app = FastAPI()
    for each in router, within, free:
        app.include_router(each)
    paths = app.openapi()["paths"]
    for route, required in ("/typed", True), ("/outer/typed", True), ("/free", False):
        shown = paths[route]["post"]
        (key,) = (each for each in shown["parameters"] if each["in"] == "header")
        assert (key["name"], key["required"]) == ("Idempotency-Key", required)
        assert key["schema"]["maxLength"] == 255
        assert "application/problem+json" in shown["responses"]["409"]["content"]
    shown = paths["/typed"]["post"]
    assert [each["name"] for each in shown["parameters"]] == ["amount", "Idempotency-Key"]
    assert "application/json" in shown["responses"]["422"]["content"]  # from the validation
    assert "parameters" not in paths["/reads"]["get"]


def test_fastapi_refuses_a_generator() -> None:
    with pytest.raises(TypeError, match="streams its answer"):

        @pay.post("/generator")
        def generator() -> Iterator[int]:
            yield 1


def test_fastapi_takes_another_client(client: holdfast.Client, name: str) -> None:
    app = FastAPI()
    app.include_router(free)
    app.dependency_overrides[get_client] = lambda: client
    with TestClient(app) as site:
        for _ in range(2):
            assert site.post("/free", headers={"Idempotency-Key": name}).text == "1"
    assert client.once_forget(f"{PREFIX}:{name}")


def test_fastapi_runs_no_request_that_was_cut_off(client: holdfast.Client, name: str) -> None:
    app = FastAPI()
    app.include_router(free)
    app.dependency_overrides[get_client] = lambda: client
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/free",
        "raw_path": b"/free",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"idempotency-key", name.encode())],
    }
    more = {"type": "http.request", "body": b"half of", "more_body": True}
    messages = iter([more, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert (vendor.calls, sent[0]["status"]) == (0, 499)
    assert client.once_result(f"{PREFIX}:{name}") is None
    with TestClient(app) as site:  # sent again, with everything
        again = site.post("/free", headers={"Idempotency-Key": name}, content=b"half of it")
        assert (again.status_code, vendor.calls) == (200, 1)


@pytest.mark.parametrize("framework", ["fastapi", "django"])
def test_a_key_that_is_not_required(
    request: pytest.FixtureRequest, name: str, framework: str
) -> None:
    site: Site = request.getfixturevalue(framework)
    assert [site.post(None, path="/free").body for _ in range(2)] == [b"1", b"2"]
    assert [site.post(name, path="/free").body for _ in range(2)] == [b"3", b"3"]


@pytest.mark.parametrize("view", ["/denies", "/denies_later"])
def test_django_keeps_what_it_answers_for_an_exception(
    django: DjangoSite, name: str, view: str
) -> None:
    site = AsyncDjangoSite() if view == "/denies_later" else django
    first = site.post(name, path=view)
    assert first.status == 403
    site.post(name, path=view).replays(first)
    assert vendor.calls == 1


def test_django_renders_an_answer(django: DjangoSite, name: str) -> None:
    first = django.post(name, path="/renders")
    assert first.body == b"paid 7"
    django.post(name, path="/renders").replays(first)


def test_django_cannot_keep_a_streamed_answer(django: DjangoSite, name: str) -> None:
    with pytest.raises(AttributeError):  # the answer itself is a stream
        django.post(name, path="/streams")
    django.post(name, path="/streams").problem(409, "outcome-unknown")
    assert vendor.calls == 1


@pytest.mark.usefixtures("django")
def test_django_compares_a_form_with_files(name: str) -> None:
    def send(content: bytes) -> int:
        form = {"a": "1", "file": SimpleUploadedFile("f.txt", content)}
        headers = {"X-User": "ann", "Idempotency-Key": name}
        return int(Client().post("/uploads", form, headers=headers).status_code)

    assert [send(b"one"), send(b"one"), send(b"two")] == [200, 200, 422]
    assert vendor.bodies == [b"one"]


@pytest.mark.usefixtures("django")
def test_django_commits_before_the_answer_is_kept(name: str) -> None:
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert DjangoSite().post(name, path="/commits").status == 200
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
    assert vendor.bodies == [b"atomic", b"running"]


@pytest.mark.usefixtures("django")
@pytest.mark.parametrize(
    ("view", "lock", "status"),
    [
        ("/locks", "outer", 409),
        ("/locks", "inner", 423),
        ("/locks/awaits", "outer", 409),
        ("/locks/class", "outer", 409),
    ],
)
def test_django_keeps_no_refusal_of_the_lock_of_a_view(
    client: holdfast.Client, name: str, view: str, lock: str, status: int
) -> None:
    site = AsyncDjangoSite() if view == "/locks/awaits" else DjangoSite()
    with client.lock(f"{PREFIX}:{lock}"):
        assert site.post(name, path=view).status == status
    first = site.post(name, path=view)
    assert first.status == 201
    site.post(name, path=view).replays(first)
    assert vendor.calls == 1


@pytest.mark.usefixtures("django")
@pytest.mark.parametrize("view", ["/locks/under", "/locks/both"])
def test_django_keeps_the_refusal_of_a_lock_that_a_view_meets_in_its_work(
    client: holdfast.Client, name: str, view: str
) -> None:
    site = DjangoSite()
    with client.lock(f"{PREFIX}:under"):
        first = site.post(name, path=view)
    assert (first.status, vendor.calls) == (409, 1)
    site.post(name, path=view).replays(first)
    assert vendor.calls == 1


@pytest.mark.usefixtures("django")
def test_django_knows_that_a_view_without_its_lock_did_not_run(name: str, raw: redis.Redis) -> None:
    site = DjangoSite()
    with refused(raw, f"{PREFIX}:outer"):
        assert site.post(name, path="/locks").status == 503
    assert site.post(name, path="/locks").status == 201


# ------------------------------------------------------------------------- Arguments


@pytest.mark.parametrize("make", [idempotent_route, idempotent_view])
def test_arguments_that_are_wrong(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="prefix must be str"):
        make(7)
    with pytest.raises(ValueError, match="prefix must not be empty"):
        make("")
    with pytest.raises(TypeError, match="scope must be a function"):
        make("pay", scope="user")
    with pytest.raises(TypeError, match="scope must be a plain function"):
        make("pay", scope=asyncio.sleep)
    with pytest.raises(TypeError, match="required must be"):
        make("pay", required=1)
    with pytest.raises(ValueError, match="ttl"):
        make("pay", ttl=1)


@pytest.mark.usefixtures("django")
@pytest.mark.parametrize(
    ("scope", "refused"),
    [
        (lambda request: None, pytest.raises(ValueError, match="gave None")),
        (lambda request: asyncio.sleep(0), pytest.raises(TypeError, match="scope must be a plain")),
    ],
)
def test_a_scope_of_nobody_is_refused(name: str, scope: Any, refused: Any) -> None:
    @idempotent_view(PREFIX, scope=scope)
    def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(vendor(b"")))

    @idempotent_view(PREFIX, scope=scope)
    async def awaits(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(vendor(b"")))

    request = HttpRequest()
    request.method, request.META["HTTP_IDEMPOTENCY_KEY"] = "POST", name
    request._body = b""
    with refused:
        view(request)
    with refused:
        asyncio.run(awaits(request))
    assert vendor.calls == 0
    assert django_client().once_result(f"{PREFIX}:{name}") is None
