"""The settings of a client's servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import _holdfast

Level = Literal["good", "note", "warning"]

LEVELS: dict[int, Level] = {
    _holdfast.HF_FINDING_GOOD: "good",
    _holdfast.HF_FINDING_NOTE: "note",
    _holdfast.HF_FINDING_WARNING: "warning",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One setting of a server; Client.survey() finds them."""

    level: Level
    """ "good"; "note": worth knowing, or it cannot be read; "warning": locks can be lost."""
    subject: str
    """Its subject, such as "eviction" or "persistence"."""
    server: str
    """The server, without user and password."""
    text: str
    """One sentence for people."""


def survey(core: _holdfast.Core, client: _holdfast.Client, name: bytes | None) -> list[Finding]:
    """Check every server."""
    findings: list[Finding] = []
    server = 0
    while found := core.hf_client_survey(client, server, name):
        findings += [Finding(LEVELS[level], *texts) for level, *texts in found]
        server += 1
    return findings
