"""The header Idempotency-Key, by the IETF's draft: the answers to requests with it.

A framework's module reads the request, runs the handler, and sends the answers that this module
makes.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import holdfast

from .. import _log
from .._arguments import called, duration, flag, function
from .._options import LockChanges, merged

if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

__all__ = ["Answer", "Asked", "Idempotency"]

Request = TypeVar("Request")

# An sf-string, as the draft has it, or bare, as Stripe has it. No comma: servers join two headers
# with one.
_BARE = re.compile(r"[!#-+\--\[\]-~]{1,255}", re.ASCII)
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\]){1,255})"', re.ASCII)

PROBLEM = "application/problem+json"

if TYPE_CHECKING:

    class Rules(LockChanges, TypedDict, Generic[Request], total=False):
        """A user's options for some routes, each by its name."""

        scope: Callable[[Request], object] | None
        required: bool
        ttl: float | timedelta
        retry_after: float | timedelta
        methods: Collection[str]
        options: holdfast.LockOptions | None


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    body: bytes
    content_type: str | None
    headers: dict[str, str] = field(default_factory=dict)

    def kept(self) -> dict[str, Any]:
        """Return the form that is kept: JSON, which people can also write, to settle a request."""
        made: dict[str, Any] = {"status": self.status, "content_type": self.content_type}
        try:
            return {**made, "text": self.body.decode()}
        except UnicodeDecodeError:
            return {**made, "base64": base64.b64encode(self.body).decode()}


@dataclass(frozen=True)
class Asked:
    """A request with a key."""

    name: str
    args: dict[str, str]


class Idempotency(Generic[Request]):
    """The rules of some routes."""

    def __init__(self, prefix: str, **given: Unpack[Rules[Request]]) -> None:
        """Check the arguments."""
        if not isinstance(prefix, str):
            raise TypeError(f"prefix must be str, not {prefix!r}")
        if not prefix:
            raise ValueError("prefix must not be empty")
        self._prefix = prefix
        self._scope = given.pop("scope", None)
        function("scope", self._scope)
        self.required = flag("required", given.pop("required", True))
        self._ttl = given.pop("ttl", timedelta(hours=24))
        duration("ttl", self._ttl, least=10_000)
        after = duration("retry_after", given.pop("retry_after", 1), least=0) / 1000
        self._later = {"Retry-After": str(math.ceil(after))}
        self.methods = {method.upper() for method in given.pop("methods", ("POST", "PATCH"))}
        self.options = merged(given.pop("options", None), given)

    def asked(
        self, request: Request, given: list[str], method: str, target: str, body: bytes
    ) -> Asked | Answer | None:
        """Return the call that a request asks for; None if it has no key and needs none.

        given   The values of the request's headers Idempotency-Key.
        target  The request's path and query.
        """
        if not given:
            if not self.required:
                return None
            return problem(
                400,
                "missing",
                "The header Idempotency-Key is missing",
                "Send one key with each request of this kind, and the same key when you repeat it.",
            )
        key = _key(given)
        if key is None:
            return problem(
                400,
                "malformed",
                "The header Idempotency-Key is malformed",
                "Send one key of 1 to 255 printable ASCII characters, in double quotes.",
            )
        parts = [self._prefix]
        if self._scope is not None:
            whose = called("scope", self._scope, request)
            if whose is None:
                raise ValueError(
                    f"scope= of {self._prefix!r} gave None: two users' keys could meet; raise an"
                    " error, or give what all such requests may share"
                )
            # Without a colon: no scope and key of one user can look like those of another.
            parts.append(holdfast.quote(str(whose)).replace(":", "%3A"))
        parts.append(holdfast.quote(key))
        args = {
            "method": method,
            "target": target,
            "body": base64.b64encode(body).decode(),
        }
        return Asked(":".join(parts), args)

    def terms(self, asked: Asked) -> dict[str, Any]:
        """Return the arguments of once_begin()."""
        return {
            "options": self.options,
            "name": asked.name,
            "args": asked.args,
            "ttl": self._ttl,
            "timeout": 0,
            "at_most_once": True,
            "note": f"{asked.args['method']} {asked.args['target']}"[:200],
        }

    def refused(self, asked: Asked, failed: holdfast.LockError) -> Answer:
        """Answer a request that must not run."""
        if isinstance(failed, holdfast.OutcomeUnknown):
            return problem(
                409,
                "outcome-unknown",
                "It is unknown how the first request with this Idempotency-Key ended",
                "It began and was not answered, so it is not run again. Repeating it does not"
                " help until its outcome is found out and settled.",
            )
        if isinstance(failed, holdfast.FingerprintMismatch):
            return problem(
                422,
                "other-request",
                "This Idempotency-Key belongs to another request",
                "The first request with this key had another method, path, query or body."
                " Send a new key with a new request.",
            )
        if isinstance(failed, holdfast.LockTimeout):
            return problem(
                409,
                "in-progress",
                "A request with this Idempotency-Key is in progress",
                "Repeat it later, and it gets the same answer.",
                self._later,
            )
        if isinstance(failed, holdfast.LockDeadlock):
            raise failed
        _log.error("%s at %r: %s", type(failed).__name__, asked.name, failed)
        return problem(
            503,
            "unavailable",
            "The Idempotency-Key cannot be looked up now",
            "The request was not run. Repeat it later, with the same key.",
            self._later,
        )


def _key(given: list[str]) -> str | None:
    if len(given) != 1:
        return None
    value = given[0].strip(" \t")
    quoted = _QUOTED.fullmatch(value)
    if quoted:
        return re.sub(r"\\(.)", r"\1", quoted[1])
    return value if _BARE.fullmatch(value) else None


def problem(
    status: int, kind: str, title: str, detail: str, headers: dict[str, str] | None = None
) -> Answer:
    """Make an answer of RFC 9457. Its type is a name, not an address."""
    told = {
        "type": f"urn:holdfast:idempotency:{kind}",
        "title": title,
        "status": status,
        "detail": detail,
    }
    return Answer(status, json.dumps(told).encode(), PROBLEM, headers or {})


def replayed(outcome: Any) -> Answer:
    """Return the kept answer."""
    try:
        found = outcome.result
        text = found.get("text")
        body = base64.b64decode(found["base64"]) if text is None else text.encode()
        status, content_type = int(found["status"]), found.get("content_type")
        if not 200 <= status <= 599 or not (content_type is None or isinstance(content_type, str)):
            raise ValueError("no status or no content type of an answer")
    except (holdfast.LockError, ValueError, TypeError, LookupError, AttributeError, binascii.Error):
        _log.exception("%r: what is kept is no answer of HTTP", outcome)
        return problem(
            500,
            "no-answer",
            "What is kept for this Idempotency-Key is no answer",
            "The request was settled with a result that cannot be sent. It is not run again.",
        )
    return Answer(status, body, content_type, {"Idempotent-Replayed": "true"})


def ending(answer: Answer | None) -> tuple[str, Any]:
    """Return the end of a turn after an answer, None if streamed: a method and its argument."""
    if answer is None:
        return "unknown", "the answer was streamed, and cannot be kept"
    if answer.status >= 500:
        return "unknown", f"the answer was {answer.status}"
    return "finish", answer.kept()


def not_kept(asked: Asked, failed: holdfast.LockError) -> None:
    """Log that other callers cannot get the answer, which the first caller still gets."""
    _log.error("the answer to %r is not kept: %s", asked.name, failed)
