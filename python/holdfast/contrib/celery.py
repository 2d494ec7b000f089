"""Celery tasks under a lock, or once in a period: `pip install holdfast-lock[celery]`.

    app = Celery("tasks", task_cls="holdfast.contrib.celery:LockedTask")
    app.conf.holdfast_url = "redis://localhost"

    @app.task(bind=True, acks_late=True, lock="report:{report}")
    def rebuild(self, report):
        write(self.hold.fence)

    @app.task(once_per=23 * 3600)
    def nightly(): ...

The setting `holdfast_options` has the other arguments of holdfast.connect(). Each process of a
worker has its own client, which connects on first use.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Literal, cast

try:
    from celery import Celery, Task
    from celery.exceptions import ImproperlyConfigured, Retry
    from celery.signals import worker_process_shutdown
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.celery needs celery, which comes with holdfast-lock[celery]",
        name=missing.name,
    ) from missing

import holdfast

from .. import _log
from .._arguments import duration, whole
from .._once import OnceTerms, agreed
from .._options import merged
from ._clients import remembered
from ._jobs import LATER, Section, lease

__all__ = ["LockedTask", "get_client"]

_TRIES = "holdfast_tries"  # the message's header that counts how often a task was sent back

_clients: dict[Celery, holdfast.Client] = {}
_holds: ContextVar[Mapping[str, holdfast.Hold]] = ContextVar("_holds")  # of tasks, by name


def get_client(app: Celery) -> holdfast.Client:
    """Return the client of an app's settings holdfast_url and holdfast_options.

    Raises ImproperlyConfigured if they are wrong.
    """
    return remembered(_clients, app, lambda: _connect(app))


def _connect(app: Celery) -> holdfast.Client:
    url = app.conf.get("holdfast_url")
    if not url:
        raise ImproperlyConfigured(
            'the setting holdfast_url is missing: app.conf.holdfast_url = "redis://localhost"'
        )
    options = {"lazy": True, **(app.conf.get("holdfast_options") or {})}
    try:
        return holdfast.connect(url, **options)
    except (TypeError, ValueError) as wrong:
        raise ImproperlyConfigured(f"holdfast_url or holdfast_options: {wrong}") from wrong


@worker_process_shutdown.connect
def _close(**_: object) -> None:
    """Release the holds that tasks left behind: a pool's process ends without Python's atexit."""
    for client in list(_clients.values()):
        client.close()


class LockedTask(Task):
    """A task with the options `lock`, `once_per`, `once`: `base=` of a task, `task_cls` of an app.

    A task without them is an ordinary task. If the lock cannot be acquired, the task is sent back
    to the broker, and tried again; this does not count as one of its retries.
    """

    lock: str | None = None
    """The lock's name; str.format() fills in the task's arguments, through holdfast.quote()."""
    once_per: float | timedelta | None = None
    """Seconds, counted from the start of a run, for which no other task of that name runs: it ends
    with the result None. The name is `lock`, or else the task's name. A task that starts
    while another runs is tried again, until the other has done its work or failed."""
    once: Mapping[str, Any] | None = None
    """Do the work at most once among all tasks with the same `lock`, which contains the task's
    arguments: {"ttl": 86400} and the other arguments of Client.once(). A task that starts later
    ends with the first task's result. If a run raises, or its worker dies, the next task fails
    with OutcomeUnknown, until the call is settled. Other arguments are refused."""
    lock_timeout: float | timedelta | None = 0
    """Seconds for which a process of the worker waits for the lock, before the task goes back."""
    lock_options: holdfast.LockOptions | None = None
    """As for Client.lock(). With permits, up to that number of tasks run at once."""
    lock_busy: Literal["retry", "skip"] = "retry"
    """If others have the lock, the task is tried again, or ends with the result None. A task that
    was delivered again is tried once more: its own dead run may have the lock."""
    lock_countdown: float | timedelta = 5
    """Seconds until the task is tried again."""
    lock_max_retries: int = 720
    """How often it is tried again, before it fails with its last error, such as LockTimeout."""

    def __init__(self) -> None:
        """Check the options."""
        super().__init__()
        if self.lock_busy not in ("retry", "skip"):
            raise ValueError(f'lock_busy must be "retry" or "skip", not {self.lock_busy!r}')
        self._countdown = duration("lock_countdown", self.lock_countdown, least=0) / 1000
        whole("lock_max_retries", self.lock_max_retries, 0, 2**31 - 1)
        if self.once is not None:
            self._check_once(self.once)
        if self.lock is not None or (self.once_per is not None and self.name):
            _ = self._section

    def _check_once(self, once: Mapping[str, Any]) -> None:
        if self.lock is None or self.once_per is not None or self.lock_busy != "retry":
            raise ValueError(
                'once takes a lock with the task\'s arguments, as in lock="pay:{order}", and'
                ' neither once_per nor lock_busy="skip"'
            )
        given = {"at_most_once": True, **once}
        if "ttl" not in given or given["at_most_once"] is not True:
            raise ValueError('once takes a "ttl", and is always at most once')
        agreed(self.lock, given.pop("ttl"), given.pop("args", None), None, cast("OnceTerms", given))

    @functools.cached_property
    def _section(self) -> Section:
        return Section(
            "the option lock",
            self.name if self.lock is None else self.lock,
            self.run,
            self.once_per,
            self.lock_timeout,
            merged(self.lock_options, {}),
        )

    @property
    def client(self) -> holdfast.Client:
        """The client: of the app's settings, unless a subclass has another."""
        return get_client(self.app)

    @property
    def hold(self) -> holdfast.Hold:
        """The hold under which this task runs."""
        try:
            return _holds.get({})[self.name]
        except KeyError:
            raise RuntimeError(f"task {self.name} does not run under a lock") from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run under the lock."""
        if self.lock is None and self.once_per is None:
            return super().__call__(*args, **kwargs)
        if self.once is not None:
            return self._called_once(self.once, args, kwargs)
        with contextlib.ExitStack() as block:
            try:
                hold = block.enter_context(self._section.entered(self.client, args, kwargs))
            except LATER as failed:
                return self._refused(failed)
            if hold is None:
                _log.info("%s[%s] is left out: its work is done", self.name, self.request.id)
                return None
            (self.request.headers or {}).pop(_TRIES, None)  # a retry of the task counts from zero
            block.callback(_holds.reset, _holds.set({**_holds.get({}), self.name: hold}))
            return super().__call__(*args, **kwargs)

    def _called_once(
        self, once: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make the call, or return its outcome."""
        bound = inspect.signature(self.run).bind(*args, **kwargs)
        bound.apply_defaults()
        given = {"args": dict(bound.arguments), "timeout": self.lock_timeout, **once}
        given["at_most_once"] = True
        name, options = self._section.named(args, kwargs), self._section.options
        try:
            turn = self.client.once_begin(name, options=options, **given)
        except LATER as failed:  # nothing was called
            return self._refused(failed)
        with turn:
            if turn.outcome is not None:
                return turn.outcome.result
            (self.request.headers or {}).pop(_TRIES, None)
            with contextlib.ExitStack() as block:
                block.callback(_holds.reset, _holds.set({**_holds.get({}), self.name: turn.hold}))
                result = super().__call__(*args, **kwargs)
            try:
                turn.finish(result)
            except holdfast.ResultNotKept as failed:  # the caller of this task still gets it
                _log.error("%s[%s]: %s", self.name, self.request.id, failed)
            return result

    def _refused(self, failed: holdfast.LockError) -> None:
        """End the task, or send it back to be tried again."""
        request = self.request
        if request.called_directly or request.is_eager or self.name in _holds.get({}):
            raise failed  # there is no message to deliver again
        headers = request.headers or {}
        tries = headers.get(_TRIES, 0)
        countdown = self._countdown
        if isinstance(failed, holdfast.LockTimeout):
            over = False
            if self.once_per is not None:
                # A task that runs for that long is alive: no other worker needs to take over.
                over = tries >= self.lock_max_retries
            elif self.lock_busy == "skip":
                countdown = max(countdown, lease(self._section.options) + 1)
                again = (request.delivery_info or {}).get("redelivered")
                over = bool(tries) or not again or math.isinf(countdown)
            if over:
                _log.info("%s[%s] is left out: %s", self.name, request.id, failed)
                return
        if tries >= self.lock_max_retries:
            raise failed
        # As retry(), but the task's own retries stay as they are.
        message = self.signature_from_request(
            request,
            countdown=countdown,
            retries=request.retries,
            headers={**headers, _TRIES: tries + 1},
        )
        message.apply_async()
        raise Retry(exc=failed, when=countdown, sig=message)
