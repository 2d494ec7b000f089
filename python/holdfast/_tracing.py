"""The place for OpenTelemetry, if the program has it. holdfast.otel fills it in."""

from __future__ import annotations

import sys

on = False
"""Has the program called holdfast.otel.instrument()?"""


def current_trace() -> str | None:
    """Return the trace id of the current span; None: there is no span."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None
