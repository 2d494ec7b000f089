"""The results of once() as JSON, which every language reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_ADVICE = "once() keeps results as JSON; give it encode= and decode= for others"

_TAGS: dict[str, Callable[[str], object]] = {
    "$decimal": Decimal,
    "$date": date.fromisoformat,
    "$datetime": datetime.fromisoformat,
}
_ESCAPED = re.compile(r"\$+(?:decimal|date|datetime)")  # one more $ makes this an ordinary key


def _tagged(value: object) -> object:
    """Put values that JSON lacks into objects with one key."""
    if isinstance(value, dict):
        made = {key: _tagged(each) for key, each in value.items()}
        key = next(iter(made)) if len(made) == 1 else None
        escape = isinstance(key, str) and _ESCAPED.fullmatch(key)
        return {f"${key}": made[key]} if escape else made
    if isinstance(value, (list, tuple)):
        return [_tagged(each) for each in value]
    if isinstance(value, Decimal):
        return {"$decimal": str(value)}
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    return {"$date": value.isoformat()} if isinstance(value, date) else value


def _plain(value: dict[str, Any]) -> object:
    """Undo _tagged() for one object; the objects inside it are done."""
    key = next(iter(value)) if len(value) == 1 else ""
    if not _ESCAPED.fullmatch(key):
        return value
    if key.startswith("$$"):
        return {key[1:]: value[key]}
    given = value[key]
    return _TAGS[key](given) if isinstance(given, str) else value


def to_json(result: object) -> bytes:
    """Encode a result as JSON. A Decimal, date or datetime decodes to the same value."""
    try:
        return json.dumps(_tagged(result), allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as failed:
        raise type(failed)(f"{failed}: {_ADVICE}") from failed


def from_json(result: bytes) -> Any:
    """Decode a result from JSON."""
    try:
        return json.loads(result, object_hook=_plain)
    except (ValueError, ArithmeticError) as failed:
        raise ValueError(f"the result that was left is no JSON ({failed}): {_ADVICE}") from failed


def canonical(arguments: object) -> bytes:
    """Encode arguments so that equal arguments have equal bytes."""
    try:
        return json.dumps(
            _tagged(arguments), allow_nan=False, sort_keys=True, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError) as failed:
        raise type(failed)(
            f"{failed}: args takes what JSON has, and Decimal, date and datetime; or bytes"
        ) from failed
