"""Locks in Django: `pip install holdfast-lock[django]`.

    # settings.py
    HOLDFAST = {"URL": "redis://localhost"}
    INSTALLED_APPS = [..., "holdfast.contrib.django"]  # checks the setting

    # views.py
    @locked_view("item:{item}", timeout=2)
    def buy(request, item):
        write(request.hold.fence)

`HOLDFAST` has the URL, and the other arguments of holdfast.connect() in capitals, such as
CONNECT_TIMEOUT. LAZY is True by default: the site can start while the server is down. Instead of
them, CLIENT is a function that makes the client, or its dotted name: for tests,
{"CLIENT": "holdfast.testing.MemoryClient"}.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

try:
    from asgiref.sync import iscoroutinefunction, sync_to_async
    from django.conf import settings
    from django.core.exceptions import (
        BadRequest,
        ImproperlyConfigured,
        PermissionDenied,
        SuspiciousOperation,
    )
    from django.core.handlers.base import BaseHandler
    from django.core.handlers.exception import response_for_exception
    from django.core.management.base import CommandError
    from django.core.signals import setting_changed
    from django.http import Http404, HttpRequest, HttpResponse
    from django.http.request import RawPostDataException
    from django.http.response import HttpResponseBase
    from django.utils.module_loading import import_string
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.django needs django, which comes with holdfast-lock[django]",
        name=missing.name,
    ) from missing

import holdfast

from ... import _log
from ..._arguments import duration
from ..._locked import check, namer, sharing
from ..._options import LockChanges, merged
from ..._sigterm import exiting_on_sigterm
from .._asgi import seconds_left
from .._clients import remembered
from .._idempotency import Answer, Asked, Idempotency, ending, not_kept, replayed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._idempotency import Rules

__all__ = ["get_client", "idempotent_view", "locked_command", "locked_view"]

View = TypeVar("View", bound=Callable[..., Any])
Timeout = float | timedelta | Callable[[HttpRequest], float | None] | None
Busy = int | Callable[[HttpRequest, holdfast.LockTimeout], HttpResponseBase]

# --------------------------------------------------------------------- The client

_OPTIONS = [
    each.name.upper()
    for each in inspect.signature(holdfast.connect).parameters.values()
    if each.kind is each.KEYWORD_ONLY
]

_clients: dict[str, holdfast.Client] = {}  # at most one


def get_client() -> holdfast.Client:
    """Return the client of settings.HOLDFAST, made at the first call.

    After a fork it opens its own connections. You need not close it: at the end of the process it
    releases its holds. Raises ImproperlyConfigured if the setting is wrong.
    """
    return remembered(_clients, "client", connect)


def connect(sending: bool = True) -> holdfast.Client:
    """Open a client by settings.HOLDFAST; without sending, as if LAZY were True."""
    given = getattr(settings, "HOLDFAST", None)
    if not isinstance(given, Mapping) or not given.keys() & {"URL", "CLIENT"}:
        raise ImproperlyConfigured(
            'settings.HOLDFAST must be a dict with the key "URL":'
            ' HOLDFAST = {"URL": "redis://localhost"}'
        )
    for key in given:
        if key not in ("URL", "CLIENT", *_OPTIONS) or ("CLIENT" in given and key != "CLIENT"):
            raise ImproperlyConfigured(
                f"settings.HOLDFAST[{key!r}]: there is no such key here. It has URL, and may have"
                f" {', '.join(_OPTIONS)}; or only CLIENT"
            )
    if "CLIENT" in given:
        return _made(given["CLIENT"])
    options = {key.lower(): value for key, value in given.items() if key != "URL"}
    if not sending and options.get("lazy") is False:
        options["lazy"] = True
    try:
        return holdfast.connect(given["URL"], **{"lazy": True, **options})
    except (TypeError, ValueError, holdfast.UnsupportedError) as wrong:
        key = next((each for each in options if str(wrong).startswith(each)), "url").upper()
        raise ImproperlyConfigured(f"settings.HOLDFAST[{key!r}]: {wrong}") from wrong


def _made(factory: object) -> holdfast.Client:
    try:
        make: Any = import_string(factory) if isinstance(factory, str) else factory
        client = make()
    except (ImportError, TypeError) as wrong:
        raise ImproperlyConfigured(f"settings.HOLDFAST['CLIENT']: {wrong}") from wrong
    if not isinstance(client, holdfast.Client):
        raise ImproperlyConfigured(f"settings.HOLDFAST['CLIENT'] made no client, but {client!r}")
    return client


def _changed(setting: str, **_: object) -> None:
    """Forget the client of the earlier settings: tests change them."""
    if setting == "HOLDFAST" and "client" in _clients:
        _clients.pop("client").close()


setting_changed.connect(_changed)

# ---------------------------------------------------------------------- Decorators


def locked_view(
    name: str,
    timeout: Timeout = 0,
    options: holdfast.LockOptions | None = None,
    *,
    shared: bool | None = None,
    busy: Busy = 409,
    retry_after: float | timedelta = 1,
    **changes: Unpack[LockChanges],
) -> Callable[[View], View]:
    """Decorate a view, so that it runs under a lock; the hold is request.hold.

        @locked_view("item:{item}", timeout=2, busy=503)
        def buy(request, item): ...

    name         The lock's name; str.format() fills in the view's arguments, as in {item} or
                 {request.user.pk}, through holdfast.quote().
    timeout      Seconds; 0 tries once; None or -1 waits without limit. Or a function of the request
                 that returns them, for its deadline: below 0, the deadline has passed.
    options      As for Client.lock().
    shared       Hold it shared(). None: shared if there are permits.
    busy         The status of the answer if other owners keep the lock; or a function of the
                 request and the LockTimeout, which makes the answer.
    retry_after  Seconds for the header Retry-After.

    Views of both kinds, and as_view(), may be decorated; for a class, decorate dispatch() with
    method_decorator(). If the lock cannot be acquired because of an outage, the answer is 503, with
    a line in the log. LockLost is raised if the lock was lost while the view ran.

    Django 5 cancels an async view when its client hangs up: the view then loses its place in the
    queue, or releases the lock.

    With ATOMIC_REQUESTS the transaction is inside the lock: the next holder sees what this view
    wrote.
    """
    check(name, None if callable(timeout) else timeout, "locked_view")
    chosen = merged(options, changes)
    shares = sharing(chosen, shared)

    def limit(request: HttpRequest) -> float | timedelta | None:
        return seconds_left(timeout(request)) if callable(timeout) else timeout

    refuse = _Refusal(busy, math.ceil(duration("retry_after", retry_after, least=0) / 1000))

    def decorate(view: View) -> View:
        named = namer(name, view)
        outside = _All.around(view)
        wrapper: Any

        def asked(request: HttpRequest, args: Any, kwargs: Any) -> tuple[str, Any]:
            return named((request, *args), kwargs), limit(request)

        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                # In a thread, because request.user asks the database.
                what, seconds = await sync_to_async(asked)(request, args, kwargs)
                lock = get_client().aio.lock(what, chosen)
                async with contextlib.AsyncExitStack() as block:
                    try:
                        holding = (lock.shared() if shares else lock).hold(seconds)
                        request.hold = await block.enter_async_context(holding)
                    except holdfast.LockError as failed:
                        return await sync_to_async(refuse)(request, failed)
                    answer = await _atomic(view, outside)(request, *args, **kwargs)
                    return refuse.passed(answer)

        else:

            @functools.wraps(view)
            def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                _refuse_loop(view)
                what, seconds = asked(request, args, kwargs)
                lock = get_client().lock(what, chosen)
                with contextlib.ExitStack() as block:
                    try:
                        holding = (lock.shared() if shares else lock).hold(seconds)
                        request.hold = block.enter_context(holding)
                    except holdfast.LockError as failed:
                        return refuse(request, failed)
                    return refuse.passed(_atomic(view, outside)(request, *args, **kwargs))

        wrapper._holdfast_refusals = (refuse, *getattr(view, "_holdfast_refusals", ()))
        wrapper._non_atomic_requests = outside
        made: View = wrapper
        return made

    return decorate


def _refuse_loop(view: object) -> None:
    if asyncio._get_running_loop() is not None:
        raise TypeError(
            f"{view!r} is called in an event loop, which its lock would stop: if it"
            " belongs to a class with async methods, decorate what as_view() gives"
        )


class _All(set[str]):
    """All databases: a transaction around the wrapper would end after the release.

    The members are the databases for which @non_atomic_requests asks, inside or outside.
    """

    @classmethod
    def around(cls, view: object) -> _All:
        """Return the set of a wrapper of the view: that of the wrapper inside, if there is one."""
        given = getattr(view, "_non_atomic_requests", ())
        return given if isinstance(given, cls) else cls(given)

    def __contains__(self, alias: object) -> bool:
        return True


def _atomic(view: View, outside: _All) -> View:
    """Return the view with its transactions, unless a wrapper inside begins them."""
    if getattr(view, "_non_atomic_requests", None) is outside:
        return view
    inner: Any = functools.update_wrapper(functools.partial(view), view)
    inner._non_atomic_requests = set(outside)
    made: View = BaseHandler().make_view_atomic(inner)
    return made


class _Refusal:
    """The answer of a view that could not get its lock."""

    def __init__(self, busy: Busy, retry_after: int) -> None:
        if not callable(busy) and not 400 <= busy <= 599:
            raise ValueError(f"busy must be a status from 400 to 599, or a function, not {busy!r}")
        self._busy = busy
        self._retry_after = str(retry_after)

    def __call__(self, request: HttpRequest, failed: holdfast.LockError) -> HttpResponseBase:
        if isinstance(failed, holdfast.LockDeadlock):
            raise failed
        answer = self._answered(request, failed)
        if isinstance(answer, HttpResponseBase):
            answer._holdfast_refusal = self
        return answer

    def passed(self, answer: Any) -> Any:
        """Return the answer of a view that ran: it refuses nothing for this view."""
        if getattr(answer, "_holdfast_refusal", None) is self:  # of another view in its work
            answer._holdfast_refusal = None
        return answer

    def _answered(self, request: HttpRequest, failed: holdfast.LockError) -> HttpResponseBase:
        if not isinstance(failed, holdfast.LockTimeout):
            _log.error("%s at %r: %s", type(failed).__name__, request.path, failed)
            return self._answer("The lock cannot be acquired now.", 503)
        if callable(self._busy):
            return self._busy(request, failed)
        return self._answer("Another request is at it.", self._busy)

    def _answer(self, text: str, status: int) -> HttpResponseBase:
        headers = {"Retry-After": self._retry_after}
        answer: HttpResponseBase = HttpResponse(
            f"{text}\n", status=status, content_type="text/plain", headers=headers
        )
        return answer


# The exceptions that Django answers with 4xx.
_ANSWERED = (Http404, PermissionDenied, BadRequest, SuspiciousOperation)


def idempotent_view(
    prefix: str,
    **given: Unpack[Rules[HttpRequest]],
) -> Callable[[View], View]:
    """Decorate a view, so that it runs at most once for each Idempotency-Key.

        @login_required
        @idempotent_view("pay", scope=lambda request: request.user.pk)
        def pay(request): ...

    prefix       The start of the names of these calls: PREFIX:KEY, with a scope PREFIX:SCOPE:KEY.
    scope        A plain function of the request that returns the owner of the key, such as the
                 user's id: two users may send the same key.
    required     By default, answer 400 to a request without a key; if False, run it like any other.
    ttl          How long an answer is kept: 24 hours.
    retry_after  Seconds for the header Retry-After: 1.
    methods      The methods that take a key: POST and PATCH.
    options      As for Client.lock(), which may also be given by name.

    A repeated request gets the status, the body and the content type of the first request's answer,
    with the header Idempotent-Replayed. It gets 409 while the first request runs, and 422 if it is
    a different request. After an exception, an answer of 5xx, or an answer that is streamed, the
    outcome is unknown: the answer is 409 until it is settled. Http404, PermissionDenied and other
    exceptions that Django answers with 4xx are answers. If the lock's server is down, nothing runs:
    503. A request that a locked_view() between this decorator and the view refuses uses up no key.

    Views of both kinds, and as_view(), may be decorated; for a class, decorate dispatch() with
    method_decorator(). Decorators around this one, such as login_required, run for each request.
    With ATOMIC_REQUESTS the transaction is committed before the answer is kept.
    """
    rules: Idempotency[HttpRequest] = Idempotency(prefix, **given)

    def asked_by(request: HttpRequest) -> Asked | Answer | None:
        if request.method not in rules.methods:
            return None
        key = request.headers.get("Idempotency-Key")
        given = [] if key is None else [key]
        target = request.get_full_path()
        return rules.asked(request, given, request.method, target, _body(request))

    def decorate(view: View) -> View:
        outside = _All.around(view)
        wrapper: Any

        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                run = _atomic(view, outside)
                asked = await sync_to_async(asked_by)(request)
                if asked is None:
                    return await run(request, *args, **kwargs)
                if isinstance(asked, Answer):
                    return _sent(asked)
                async with contextlib.AsyncExitStack() as block:
                    try:
                        beginning = get_client().aio.once_begin(**rules.terms(asked))
                        turn = await block.enter_async_context(beginning)
                    except holdfast.LockError as failed:
                        return _sent(rules.refused(asked, failed))
                    if turn.outcome is not None:
                        return _sent(replayed(turn.outcome))
                    try:
                        answer = await run(request, *args, **kwargs)
                    except _ANSWERED as raised:
                        answer = await sync_to_async(response_for_exception)(request, raised)
                    verb, *told = await sync_to_async(_ending)(view, answer)
                    try:
                        await getattr(turn, verb)(*told)
                    except holdfast.LockError as failed:
                        not_kept(asked, failed)
                    return answer

        else:

            @functools.wraps(view)
            def wrapper(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                _refuse_loop(view)
                run = _atomic(view, outside)
                asked = asked_by(request)
                if asked is None:
                    return run(request, *args, **kwargs)
                if isinstance(asked, Answer):
                    return _sent(asked)
                with contextlib.ExitStack() as block:
                    try:
                        beginning = get_client().once_begin(**rules.terms(asked))
                        turn = block.enter_context(beginning)
                    except holdfast.LockError as failed:
                        return _sent(rules.refused(asked, failed))
                    if turn.outcome is not None:
                        return _sent(replayed(turn.outcome))
                    try:
                        answer = run(request, *args, **kwargs)
                    except _ANSWERED as raised:
                        answer = response_for_exception(request, raised)
                    verb, *told = _ending(view, answer)
                    try:
                        getattr(turn, verb)(*told)
                    except holdfast.LockError as failed:
                        not_kept(asked, failed)
                    return answer

        wrapper._non_atomic_requests = outside
        made: View = wrapper
        return made

    return decorate


def _body(request: HttpRequest) -> bytes:
    """Return the body, or the parts of a form that was already parsed, as by the CSRF check."""
    try:
        body: bytes = request.body
    except RawPostDataException:
        parts: list[Any] = [list(request.POST.lists())]
        for name, files in request.FILES.lists():
            for file in files:
                digest = hashlib.sha256()
                for chunk in file.chunks():
                    digest.update(chunk)
                file.seek(0)
                parts.append((name, file.name, digest.hexdigest()))
        body = json.dumps(parts).encode()
    return body


def _ending(view: object, response: Any) -> tuple[Any, ...]:
    """Return the end of the turn: a method, and its arguments."""
    # Only a lock among the view's decorators: a view may also pay, and call another view.
    refusal = getattr(response, "_holdfast_refusal", None)
    if refusal in getattr(view, "_holdfast_refusals", ()):
        return ("withdraw",)
    return ending(_answered(response))


def _answered(response: Any) -> Answer | None:
    """Return the view's complete answer; None if it is streamed."""
    if response.streaming:
        return None
    if callable(getattr(response, "render", None)):
        response.render()
    return Answer(response.status_code, response.content, response.get("Content-Type"))


def _sent(answer: Answer) -> HttpResponseBase:
    made: HttpResponseBase = HttpResponse(
        answer.body,
        status=answer.status,
        content_type=answer.content_type,
        headers=answer.headers,
    )
    return made


def locked_command(
    name: str,
    timeout: float | timedelta | None = 0,
    options: holdfast.LockOptions | None = None,
    *,
    shared: bool | None = None,
    **changes: Unpack[LockChanges],
) -> Callable[[View], View]:
    """Decorate handle() of a management command, so that it runs under a lock: self.hold.

        class Command(BaseCommand):
            @locked_command("import:{region}")
            def handle(self, *args, **options): ...

    name     The lock's name; str.format() fills in the command's options, through
             holdfast.quote().
    timeout  Seconds; 0 tries once; None or -1 waits without limit.
    options  As for Client.lock().
    shared   Hold it shared(). None: shared if there are permits.

    If other owners keep the lock, the command ends with a message and the status 75; if the lock
    cannot be acquired because of an outage, with 69; if it was lost meanwhile, with 79, like the
    program holdfast. call_command() raises CommandError. SIGTERM ends the command with the status
    143, and releases the lock first, unless the program handles the signal itself.
    """
    check(name, timeout, "locked_command")
    chosen = merged(options, changes)
    shares = sharing(chosen, shared)

    def decorate(handle: View) -> View:
        named = namer(name, handle)

        @functools.wraps(handle)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            lock = get_client().lock(named((self, *args), kwargs), chosen)
            theirs: holdfast.LockLost | None = None
            try:
                with exiting_on_sigterm(), contextlib.ExitStack() as block:
                    try:
                        holding = (lock.shared() if shares else lock).hold(timeout)
                        self.hold = block.enter_context(holding)
                    except holdfast.LockTimeout as busy:
                        raise CommandError(f"another one runs: {busy}", returncode=75) from busy
                    except holdfast.LockDeadlock:
                        raise
                    except holdfast.LockError as failed:
                        raise CommandError(str(failed), returncode=69) from failed
                    try:
                        return handle(self, *args, **kwargs)
                    except holdfast.LockLost as raised:
                        theirs = raised
                        raise
            except holdfast.LockLost as lost:
                if lost is theirs:
                    raise
                raise CommandError(str(lost), returncode=79) from lost

        made: Any = wrapper
        return made  # type: ignore[no-any-return]

    return decorate
