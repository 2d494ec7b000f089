"""Celery tasks under a lock, or once in a period: `pip install holdfast-lock[celery]`.

    app = Celery("tasks", task_cls="holdfast.contrib.celery:LockedTask")
    app.conf.holdfast_url = "redis://localhost"

    @app.task(bind=True, acks_late=True, lock="report:{report}")
    def rebuild(self, report):
        write(self.hold.fence)

    @app.task(once_per=23 * 3600)
    def nightly(): ...

The setting `holdfast_options` has the other arguments of holdfast.connect(). Each process of a
worker has a client of its own, which connects at its first use.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Literal

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

from .._arguments import duration, whole
from .._options import merged
from ._clients import remembered
from ._jobs import LATER, Section, lease

__all__ = ["LockedTask", "get_client"]

_log = logging.getLogger("holdfast")

_TRIES = "holdfast_tries"  # the message's header that counts how often a task came back

_clients: dict[Celery, holdfast.Client] = {}
_holds: ContextVar[Mapping[str, holdfast.Hold]] = ContextVar("_holds")  # of tasks, by name


def get_client(app: Celery) -> holdfast.Client:
    """Give the client of an app's settings holdfast_url and holdfast_options.

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
    """Release what tasks left behind: a process of the pool ends without Python's atexit."""
    for client in list(_clients.values()):
        client.close()


class LockedTask(Task):
    """A task with the options `lock` and `once_per`, for `base=` of a task or `task_cls` of an app.

    A task that has neither is an ordinary one. If the lock cannot be had, the task goes back to
    the broker and comes again; this does not count as one of its retries.
    """

    lock: str | None = None
    """The lock's name; str.format() fills in the task's arguments, through holdfast.quote()."""
    once_per: float | timedelta | None = None
    """Seconds, counted from the start of a run, for which no other task of that name runs: it ends
    with the result None. The name is `lock`, or else the task's name. A task that comes while
    another runs comes again, until that has done its work or failed."""
    lock_timeout: float | timedelta | None = 0
    """Seconds for which a process of the worker waits for the lock, before the task comes again."""
    lock_options: holdfast.LockOptions | None = None
    """As for Client.lock(). With permits, so many tasks run at once."""
    lock_busy: Literal["retry", "skip"] = "retry"
    """What a task does if others have the lock: come again, or end with the result None. A task
    that was delivered again comes again once: its own dead run may be what holds the lock."""
    lock_countdown: float | timedelta = 5
    """Seconds until it comes again."""
    lock_max_retries: int = 720
    """How often it comes again, before it fails with LockTimeout or what else kept it off."""

    def __init__(self) -> None:
        """Check the options."""
        super().__init__()
        if self.lock_busy not in ("retry", "skip"):
            raise ValueError(f'lock_busy must be "retry" or "skip", not {self.lock_busy!r}')
        self._countdown = duration("lock_countdown", self.lock_countdown, least=0) / 1000
        whole("lock_max_retries", self.lock_max_retries, 0, 2**31 - 1)
        if self.lock is not None or (self.once_per is not None and self.name):
            _ = self._section

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
        """The client: that of the app's settings, unless a subclass has another."""
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
        with contextlib.ExitStack() as block:
            try:
                hold = block.enter_context(self._section.entered(self.client, args, kwargs))
            except LATER as failed:
                return self._refused(failed)
            if hold is None:
                _log.info("%s[%s] is left out: its work is done", self.name, self.request.id)
                return None
            (self.request.headers or {}).pop(_TRIES, None)  # a retry of the task counts anew
            block.callback(_holds.reset, _holds.set({**_holds.get({}), self.name: hold}))
            return super().__call__(*args, **kwargs)

    def _refused(self, failed: holdfast.LockError) -> None:
        """End the task, or send it to come again."""
        request = self.request
        if request.called_directly or request.is_eager or self.name in _holds.get({}):
            raise failed  # there is no message that could come again
        headers = request.headers or {}
        tries = headers.get(_TRIES, 0)
        countdown = self._countdown
        if isinstance(failed, holdfast.LockTimeout):
            over = False
            if self.once_per is not None:
                # What runs for so long is alive: nobody needs to take over.
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
