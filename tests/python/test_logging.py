"""The records of the logger called holdfast."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
import redis

import holdfast
from conftest import Server, elsewhere, until


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert {record.name for record in caplog.records} <= {"holdfast"}
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_all_goes_well_in_silence(
    client: holdfast.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    with client.lock(name), client.lock(name).hold() as hold:
        hold.renew()
    assert said(caplog) == []


def test_a_loss_that_somebody_is_told_of_is_logged(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()
    hold = client.lock(name, on_lost=lambda _: told.set()).hold()
    raw.delete(name)
    with pytest.raises(holdfast.LockLost):
        hold.check()
    assert told.wait(10)
    (line,) = said(caplog)
    assert line.startswith("WARNING <lost holdfast.Hold")
    assert name in line
    assert line.endswith(": gone")


def test_a_loss_that_is_not_raised_is_logged(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with client.lock(name, raise_on_lost=False):
        raw.delete(name)
    assert len(said(caplog)) == 1


def test_a_release_that_fails_after_the_exception_of_its_block_is_logged(
    client: holdfast.Client, name: str, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ZeroDivisionError) as raised, client.lock(name):
        raw.delete(name)
        raise ZeroDivisionError
    (line,) = said(caplog)
    assert line.startswith("WARNING the hold of lock 'test:")
    notes = getattr(raised.value, "__notes__", [])  # since Python 3.11
    assert all("The release failed, too: LockLost" in note for note in notes)


def test_what_is_dropped_is_logged(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = holdfast.connect(server.tcp)
    with pytest.warns(ResourceWarning):
        client.lock(name).hold()
        gc.collect()
    with pytest.warns(ResourceWarning):
        del client
        gc.collect()
    held, closed = said(caplog)
    assert "was dropped without release()" in held
    assert name in held
    assert "was dropped without close()" in closed
    assert "redis://" not in closed  # it may have a password


def test_a_dropped_client_leaves_no_thread_and_no_descriptor(server: Server, name: str) -> None:
    def count() -> tuple[int, int]:
        return len(list(Path("/proc/self/task").iterdir())), len(os.listdir("/proc/self/fd"))

    def drop() -> None:
        client = holdfast.connect(server.tcp)
        client.lock(name, owner="one").acquire()
        assert client.lock(name, owner="two").acquire(timeout=0.01) is False
        with pytest.warns(ResourceWarning):
            del client
            gc.collect()

    elsewhere(drop)
    before = count()
    for _ in range(5):
        elsewhere(drop)
    until(lambda: count() <= before)


def test_a_server_that_may_evict_a_held_lock_is_warned_of_once(
    server: Server, raw: redis.Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw.config_set("maxmemory", "1gb")
    raw.config_set("maxmemory-policy", "volatile-ttl")
    try:
        with holdfast.connect(server.tcp) as client, client.lock(name):
            pass
    finally:
        raw.config_set("maxmemory-policy", "noeviction")
        raw.config_set("maxmemory", "0")
    [warning] = said(caplog)
    assert warning.startswith("WARNING ")
    assert "maxmemory-policy volatile-ttl" in warning
