"""Trouble: renewals fail, in memory and on a clock that stands still."""

from __future__ import annotations

import contextlib
import logging

import pytest

import holdfast
import holdfast.testing
from conftest import until
from holdfast.testing import MemoryServer


def test_what_is_at_risk_is_told_and_that_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    told: list[holdfast.Trouble] = []
    server = MemoryServer(stopped_clock=True)
    with server.connect(on_trouble=told.append) as client:
        holds = [client.lock(f"k{i}", lease=9).hold() for i in range(3)]
        brief = client.lock("brief", lease=60, renew=False).hold()
        server.stop()
        server.advance(2)
        assert not told
        server.advance(3)
        until(lambda: told)
        assert told == [
            holdfast.Trouble(
                "at_risk",
                3,
                6.0,
                "cannot renew 3 holds, the first of which ends in 6.0 s: the memory server is"
                " stopped",
            )
        ]
        server.start()
        server.advance(1)
        until(lambda: len(told) > 1)
        assert (told[1].kind, told[1].holds, told[1].ends_in) == ("over", 0, None)
        server.stop()
        server.advance(20)  # all holds are lost
        server.start()
        assert not any(hold.valid for hold in holds)
        with client.lock("k0", lease=9):
            server.advance(4)
            until(lambda: len(told) > 3)
        brief.release()
    assert [trouble.kind for trouble in told] == ["at_risk", "over"] * 2
    logged = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert [each.getMessage() for each in logged] == [trouble.message for trouble in told]


def test_a_client_that_only_adopts_is_told() -> None:
    told: list[holdfast.Trouble] = []
    with contextlib.ExitStack() as clients:
        with holdfast.testing.redis_server() as url:
            giver = clients.enter_context(holdfast.connect(url))
            client = clients.enter_context(holdfast.connect(url, on_trouble=told.append))
            token = giver.lock("k").hold().hand_over()
            hold = client.lock("k", lease=6).adopt(token)
        until(lambda: told)
        assert (told[0].kind, told[0].holds) == ("at_risk", 1)
    assert not hold.valid


def test_a_function_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = MemoryServer(stopped_clock=True)

    def fail(trouble: holdfast.Trouble) -> None:
        raise RuntimeError(trouble.kind)

    with server.connect(on_trouble=fail) as client, client.lock("k", lease=9):
        server.stop()
        server.advance(4)
        until(lambda: "on_trouble failed" in caplog.text)
        server.start()


def test_only_a_function_can_be_called() -> None:
    with pytest.raises(TypeError, match="on_trouble"):
        MemoryServer().connect(on_trouble="page")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_trouble"):
        holdfast.connect("redis://127.0.0.1:1", lazy=True, on_trouble="page")  # type: ignore[arg-type]
