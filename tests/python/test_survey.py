"""The report of a client about its servers."""

from __future__ import annotations

import pytest
import redis

import holdfast
from conftest import Server


def test_a_ping_is_answered(client: holdfast.Client) -> None:
    client.ping()


def test_a_closed_client_pings_nobody(server: Server) -> None:
    client = holdfast.connect(server.tcp)
    client.close()
    with pytest.raises(holdfast.ClosedError):
        client.ping()
    with pytest.raises(holdfast.ClosedError):
        client.survey()


def test_a_ping_of_nobody_says_so() -> None:
    with holdfast.connect("redis://127.0.0.1:1?connect_timeout=0.2", lazy=True) as client:
        with pytest.raises(holdfast.ConnectError, match="127.0.0.1:1"):
            client.ping()
        with pytest.raises(holdfast.ConnectError):
            client.survey()


def test_a_survey_finds_what_endangers_locks(
    client: holdfast.Client, server: Server, raw: redis.Redis, name: str
) -> None:
    policy = raw.config_get("maxmemory-policy")["maxmemory-policy"]
    assert policy is not None
    raw.config_set("maxmemory-policy", "allkeys-lru")
    try:
        found = {finding.subject: finding for finding in client.survey(name)}
    finally:
        raw.config_set("maxmemory-policy", policy)
    assert found["eviction"].level == "note"  # maxmemory is not set
    assert "allkeys-lru" in found["eviction"].text
    assert found["eviction"].server in server.tcp
    assert found["persistence"].level == "warning"
    assert found["version"].level == "good"
    assert found["permissions"].level == "good"
    assert "permissions" not in {finding.subject for finding in client.survey()}


def test_a_survey_refuses_a_wrong_name(client: holdfast.Client) -> None:
    with pytest.raises(TypeError):
        client.survey(7)  # type: ignore[arg-type]
