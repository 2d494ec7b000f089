"""A lock for a request of FastAPI: `pip install holdfast-lock[fastapi]`.

    app = FastAPI(lifespan=lifespan("redis://localhost"))

    @app.post("/items/{item}/reports")
    async def report(item: int, hold: Annotated[AsyncHold, Locked("report:{item}")]): ...

A request that finds the lock held gets the answer 409.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
import re
import typing
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

try:
    from fastapi import Depends, FastAPI, Header, HTTPException
    from fastapi.concurrency import run_in_threadpool
    from fastapi.requests import HTTPConnection, Request
    from fastapi.responses import Response
    from fastapi.routing import APIRoute
    from pydantic import TypeAdapter, ValidationError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.fastapi needs fastapi, which comes with holdfast-lock[fastapi]",
        name=missing.name,
    ) from missing

import holdfast

from .. import _log
from .._arguments import duration, flag
from .._locked import check, fields, filled, sharing
from .._options import LockChanges, merged
from ._asgi import Connected, HungUpError, Message, Receive, Send, seconds_left
from ._idempotency import PROBLEM, Answer, Asked, Idempotency, ending, not_kept, problem, replayed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._idempotency import Rules

__all__ = ["IfFence", "Locked", "get_client", "idempotent_route", "lifespan"]

Timeout = float | timedelta | Callable[[HTTPConnection], float | None] | None


def lifespan(
    url: str, **options: Any
) -> Callable[[FastAPI], contextlib.AbstractAsyncContextManager[None]]:
    """Make a lifespan that opens the client, and closes it at the end.

        app = FastAPI(lifespan=lifespan("redis://localhost"))

    url      As for holdfast.connect(), as are the options. Without lazy=False the application can
             start while the server is down.

    Inside a lifespan of your own:

        @asynccontextmanager
        async def mine(app):
            async with lifespan("redis://localhost")(app):
                yield

    The client is app.state.holdfast; get_client() returns it to a route.
    """
    given = {"lazy": True, **options}

    @contextlib.asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        client = await asyncio.to_thread(holdfast.connect, url, **given)
        app.state.holdfast = client
        try:
            yield
        finally:
            await asyncio.to_thread(client.close)

    return opened


async def get_client(connection: HTTPConnection) -> holdfast.Client:
    """Return the application's client: Annotated[holdfast.Client, Depends(get_client)]."""
    client: holdfast.Client | None = getattr(connection.app.state, "holdfast", None)
    if client is None:
        raise RuntimeError(
            "app.state.holdfast is missing: FastAPI(lifespan=lifespan(url)) sets it, with the"
            " lifespan of holdfast.contrib.fastapi; a mounted application has a state of its own"
        )
    return client


def Locked(  # noqa: N802 (as Depends, Path and the others of FastAPI)
    name: str,
    timeout: Timeout = 0,
    options: holdfast.LockOptions | None = None,
    *,
    shared: bool | None = None,
    cancel_on_lost: bool = False,
    retry_after: float | timedelta = 1,
    tell_owner: bool = True,
    **changes: Unpack[LockChanges],
) -> Any:
    """Make a dependency that holds a lock while the route runs, and returns the AsyncHold.

        @app.post("/items/{item}/reports")
        async def report(item: int, hold: Annotated[AsyncHold, Locked("report:{item}")]): ...

        @app.post("/reports", dependencies=[Locked("reports", timeout=2)])
        def reports(): ...

    name            The lock's name; str.format() fills in the path's parameters, as the route's
                    function gets them, through holdfast.quote().
    timeout         Seconds; 0 tries once; None or -1 waits without limit. Or a function of the
                    request that returns them, for its deadline: below 0, the deadline has passed.
    options         As for Client.lock().
    shared          Hold it shared(). None: shared if there are permits.
    cancel_on_lost  Cancel a coroutine function when the lock is lost, as in AsyncLock.hold().
    retry_after     Seconds for the header Retry-After.
    tell_owner      Name the holder of the lock in the answer. A default owner contains the names of
                    the host and the client.

    If other owners keep the lock, the answer is 409; if the lock cannot be acquired because of an
    outage, 503, with a line in the log. A client that hangs up while its request waits loses its
    place in the queue; the answer, which is not read, is 499. If the lock was lost while the route
    ran, the answer is 500, with a line in the log. The lock is released before the answer is sent.
    """
    check(name, None if callable(timeout) else timeout, "Locked")
    wanted = fields(name)
    chosen = merged(options, changes)
    shares = sharing(chosen, shared)
    flag("cancel_on_lost", cancel_on_lost)
    flag("tell_owner", tell_owner)
    after = duration("retry_after", retry_after, least=0) / 1000
    later = {"Retry-After": str(math.ceil(after))}

    async def locked(
        connection: HTTPConnection, client: Annotated[holdfast.Client, Depends(get_client)]
    ) -> AsyncIterator[holdfast.AsyncHold]:
        lock = client.aio.lock(_named(name, wanted, connection), chosen)
        lock = lock.shared() if shares else lock
        theirs: holdfast.LockLost | None = None
        try:
            async with contextlib.AsyncExitStack() as block:
                limit = seconds_left(timeout(connection)) if callable(timeout) else timeout
                holding = lock.hold(limit, cancel_on_lost=cancel_on_lost)
                try:
                    async with _connected(connection, limit):
                        hold = await block.enter_async_context(holding)
                except HungUpError as gone:
                    raise HTTPException(499, "the client hung up while it waited") from gone
                except holdfast.LockTimeout as busy:
                    told = await _busy(lock, tell_owner)
                    raise HTTPException(409, told, later) from busy
                except holdfast.LockDeadlock:
                    raise
                except holdfast.LockError as failed:
                    _log.error("%s at %r: %s", type(failed).__name__, connection.url.path, failed)
                    told = {"message": "the lock cannot be acquired now", "lock": lock.name}
                    raise HTTPException(503, told, later) from failed
                try:
                    yield hold
                except holdfast.LockLost as raised:
                    theirs = raised
                    raise
        except holdfast.LockLost as lost:
            if lost is theirs:
                raise
            _log.error("%r: %s", connection.url.path, lost)
            told = {"message": "the lock was lost while the request ran", "lock": lock.name}
            raise HTTPException(500, told) from lost

    # As "function" it ends before the answer is sent: the answer can still become 500, and a
    # client that has read the answer finds the lock free.
    return Depends(locked, scope="function")


def _connected(
    connection: HTTPConnection, timeout: float | timedelta | None
) -> contextlib.AbstractAsyncContextManager[object]:
    """Make the block in which a request waits; it ends when the client hangs up."""
    if timeout == 0 or not isinstance(connection, Request):
        return contextlib.nullcontext()
    connected = Connected(connection.receive)
    connection._receive = connected.receive
    return connected


async def _busy(lock: holdfast.AsyncLock, tell_owner: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"message": "another owner holds the lock", "lock": lock.name}
    if tell_owner:
        with contextlib.suppress(holdfast.LockError):
            info = await lock.inspect()
            told |= {"owner": info.owner, "held_for": info.held_for, "waiters": info.waiters}
            if info.kept:
                told["message"] = "the work of the last holder has ended, and the lock is kept"
                told["kept_for"] = info.remaining
    return told


def _named(name: str, wanted: set[str], connection: HTTPConnection) -> str:
    """Fill in the path's parameters.

    They are converted first: /items/7 and /items/07 are the same item.
    """
    given = connection.path_params
    if not wanted <= set(given):
        raise RuntimeError(
            f"{name!r} has a field that is no parameter of the path: {sorted(given)}"
        )
    known = dict(given)
    for field in wanted:
        adapter = _adapter(connection.scope["endpoint"], field)
        if adapter is not None:
            with contextlib.suppress(ValidationError):  # FastAPI will refuse it
                known[field] = adapter.validate_python(given[field])
    return filled(name, known)


@functools.cache
def _adapter(endpoint: Callable[..., object], field: str) -> TypeAdapter[Any] | None:
    """Return the converter of a parameter to the type that the route's function expects."""
    while isinstance(endpoint, functools.partial):
        endpoint = endpoint.func
    function = endpoint if inspect.isroutine(endpoint) else type(endpoint).__call__
    hints = typing.get_type_hints(function, include_extras=True)
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, str)
        about = (parameter.default, *getattr(hint, "__metadata__", ()))  # Path(alias="item")
        if field in (parameter.name, *(getattr(each, "alias", None) for each in about)):
            return TypeAdapter(hint)
    return None


# ------------------------------------------------------------------ A fence from elsewhere


async def _if_fence(
    if_fence: Annotated[
        str | None,
        Header(description="The fence of the caller's hold. 412: a later holder was here."),
    ] = None,
) -> AsyncIterator[int]:
    if if_fence is None:
        raise HTTPException(428, "the header If-Fence is missing: it has the fence of your hold")
    if not re.fullmatch(r"[0-9]{1,18}", if_fence, re.ASCII) or int(if_fence) == 0:
        raise HTTPException(400, f"If-Fence must be the fence of a hold, not {if_fence!r}")
    try:
        yield int(if_fence)
    except holdfast.StaleFence as stale:
        told = {"message": str(stale), "fence": stale.fence, "last": stale.last}
        raise HTTPException(412, told) from stale


IfFence = Annotated[int, Depends(_if_fence, scope="function")]
"""The fence of a caller in another process, from the header If-Fence: a type for a parameter.

    @app.put("/items/{item}")
    def put(item: int, fence: IfFence, cursor: ...):
        guard(cursor, f"item:{item}", fence)

Without the header the answer is 428, and 400 if its value is not a fence. If the route raises
StaleFence, as guard() does, the answer is 412 with both fences.
"""


# ------------------------------------------------------------------ Idempotency-Key


def idempotent_route(
    prefix: str,
    **given: Unpack[Rules[Request]],
) -> type[APIRoute]:
    """Make a class of routes that run at most once for each Idempotency-Key.

        payments = APIRouter(route_class=idempotent_route("pay", scope=user_of))

    prefix       The start of the names of these calls: PREFIX:KEY, with a scope PREFIX:SCOPE:KEY.
    scope        A plain function of the request that returns the owner of the key, such as the
                 user's id: two users may send the same key. It runs after the dependencies, which
                 may leave it something in request.state.
    required     By default, answer 400 to a request without a key; if False, run it like any other.
    ttl          How long an answer is kept: 24 hours.
    retry_after  Seconds for the header Retry-After: 1.
    methods      The methods that take a key: POST and PATCH.
    options      As for Client.lock(), which may also be given by name.

    A repeated request gets the status, the body and the content type of the first request's answer,
    with the header Idempotent-Replayed. It gets 409 while the first request runs, and 422 if it is
    a different request. After an exception, or an answer of 5xx, the outcome is unknown: the answer
    is 409 until it is settled. If the lock's server is down, nothing runs: 503.

    The API's description (OpenAPI) has the header and these answers.

    A request that the dependencies or the validation refuse has not begun, and uses up no key. The
    request's body is read before them, and the answer is sent when it is complete.
    """
    rules: Idempotency[Request] = Idempotency(prefix, **given)

    class IdempotentRoute(APIRoute):
        def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
            if rules.methods & {method.upper() for method in given.get("methods") or ("GET",)}:
                given["openapi_extra"] = _with_key(given.get("openapi_extra"), rules.required)
            super().__init__(path, _begun_once(endpoint), **given)

        async def handle(self, scope: Any, receive: Receive, send: Send) -> None:
            if scope["method"] not in rules.methods:
                await super().handle(scope, receive, send)
                return
            scope["extensions"] = {}  # no extension through which an answer is sent past send()
            async with contextlib.AsyncExitStack() as block:
                first = _First(rules, block, scope, receive, send)
                if first.keys:
                    await first.read()
                token = _first.set(first)
                try:
                    await super().handle(scope, first.receive, first.send)
                finally:
                    _first.reset(token)

    return IdempotentRoute


def _with_key(extra: dict[str, Any] | None, required: bool) -> dict[str, Any]:
    """Add the header to the route's OpenAPI, unless it is there."""
    extra = extra or {}
    parameters = list(extra.get("parameters", ()))
    if not any(each.get("name") == "Idempotency-Key" for each in parameters):
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": required,
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
                "description": "The same for each repetition of one request.",
            }
        )
    told = {
        "400": "The key is missing or malformed",
        "409": "The first request with this key is in progress, or its outcome is unknown",
        "422": "The request is not valid, or the key belongs to another one",
        "503": "The key cannot be looked up now",
    }
    problems = {
        status: {"description": what, "content": {PROBLEM: {}}} for status, what in told.items()
    }
    return {
        **extra,
        "parameters": parameters,
        "responses": {**problems, **extra.get("responses", {})},
    }


class _First:
    """A request that may be the first with its key."""

    def __init__(
        self,
        rules: Idempotency[Request],
        block: contextlib.AsyncExitStack,
        scope: Any,
        receive: Receive,
        send: Send,
    ) -> None:
        self._rules, self._block = rules, block
        self._scope, self._receive, self._send = scope, receive, send
        named = (value for name, value in scope["headers"] if name == b"idempotency-key")
        self.keys = [value.decode("latin-1") for value in named]
        self._request: list[Message] = []
        self._body = b""
        self._cut = False  # whether the client hung up before the end of the body
        self._answer: list[Message] = []
        self._turn: holdfast.AsyncTurn | None = None
        self._asked: Asked | None = None

    async def read(self) -> None:
        """Read the body, which the route gets afterwards."""
        more = True
        while more:
            message = await self._receive()
            self._request.append(message)
            self._cut = message["type"] == "http.disconnect"
            self._body += message.get("body", b"")
            more = message.get("more_body", False)

    async def receive(self) -> Message:
        return self._request.pop(0) if self._request else await self._receive()

    async def begin(self) -> Answer | None:
        """Get the turn; or the answer, if the route must not run."""
        if self._cut:
            title = "The client hung up before the end of its request"
            return problem(499, "cut-off", title, "The request was not run. Repeat it.")
        request = Request(self._scope)
        target = request.url.path
        if request.url.query:
            target += f"?{request.url.query}"
        asked = self._rules.asked(request, self.keys, request.method, target, self._body)
        if not isinstance(asked, Asked):
            return asked
        client = await _client_of(request)
        try:
            beginning = client.aio.once_begin(**self._rules.terms(asked))
            turn = await self._block.enter_async_context(beginning)
        except holdfast.LockError as failed:
            return self._rules.refused(asked, failed)
        if turn.outcome is not None:
            return replayed(turn.outcome)
        self._turn, self._asked = turn, asked
        return None

    async def send(self, message: Message) -> None:
        """Keep the answer, and then send it."""
        if self._turn is None:
            await self._send(message)
            return
        self._answer.append(message)
        if message["type"] != "http.response.body" or message.get("more_body", False):
            return
        turn, self._turn = self._turn, None
        asked = self._asked
        assert asked is not None
        verb, told = ending(self._answered())
        try:
            await getattr(turn, verb)(told)
        except holdfast.LockError as failed:
            not_kept(asked, failed)
        for each in self._answer:
            await self._send(each)

    def _answered(self) -> Answer:
        start = self._answer[0]
        headers = dict(start.get("headers", ()))
        content_type = headers.get(b"content-type")
        return Answer(
            start["status"],
            b"".join(each.get("body", b"") for each in self._answer),
            None if content_type is None else content_type.decode("latin-1"),
        )


_first: ContextVar[_First | None] = ContextVar("holdfast_first", default=None)


async def _client_of(request: Request) -> holdfast.Client:
    """Return the client, or a test's replacement."""
    get = request.app.dependency_overrides.get(get_client, get_client)
    found = get(request) if inspect.signature(get).parameters else get()
    client: holdfast.Client = await found if inspect.isawaitable(found) else found
    return client


def _begun_once(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a route's function: it runs if its request is the first with its key."""
    if getattr(endpoint, "_holdfast_begun_once", False):
        return endpoint  # include_router() of FastAPI makes a route of a route's function again
    if inspect.isgeneratorfunction(endpoint) or inspect.isasyncgenfunction(endpoint):
        raise TypeError(f"{endpoint!r} streams its answer, which cannot be kept for a repetition")
    call = getattr(endpoint, "__call__", endpoint)  # noqa: B004 (of an object)
    awaits = inspect.iscoroutinefunction(endpoint) or inspect.iscoroutinefunction(call)

    @functools.wraps(endpoint)
    async def begun_once(*args: Any, **kwargs: Any) -> Any:
        first = _first.get()
        answer = None if first is None else await first.begin()
        if answer is not None:
            return Response(answer.body, answer.status, answer.headers, answer.content_type)
        if awaits:
            return await endpoint(*args, **kwargs)
        return await run_in_threadpool(endpoint, *args, **kwargs)

    begun_once._holdfast_begun_once = True  # type: ignore[attr-defined]
    return begun_once
