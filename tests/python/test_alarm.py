"""The alarm: many acquires of one lock time out."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from conftest import Server, until


def time_out(lock: holdfast.Lock, times: int, timeout: float = 0.001) -> None:
    for _ in range(times):
        assert lock.acquire(timeout=timeout) is False


def test_the_alarm_names_the_lock_once_and_says_who_holds_it(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[holdfast.Alarm] = []
    with holdfast.connect(server.tcp, alarm=(3, 3600), on_alarm=told.append) as client:
        lock, other = client.lock(name), client.lock(f"{name} 2")
        with client.lock(name, owner="vendor"), client.lock(f"{name} 2", owner="them"):
            time_out(lock, 2)
            time_out(other, 2)  # each lock counts by itself
            time_out(lock, 1, 1)  # long enough to queue
            until(lambda: told)
            time_out(lock, 3)  # not again within the hour
            time_out(other, 1)
            until(lambda: len(told) > 1)
        assert client.stats().alarms == 2
        assert client.stats().refused["timeout"] == 9
    assert [(alarm.name, alarm.timeouts) for alarm in told] == [(name, 3), (f"{name} 2", 3)]
    assert "3 acquires timed out within 3600 s" in told[0].message
    assert "at last by 'vendor'" in told[0].message
    logged = [each for each in caplog.records if each.name == "holdfast"]
    assert [each.getMessage() for each in logged] == [alarm.message for alarm in told]
    assert {each.levelno for each in logged} == {logging.WARNING}


def test_an_alarm_is_logged_without_a_function_for_it(
    client: holdfast.Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = client.lock(name, alarm=(1, timedelta(hours=1)))
    with client.lock(name, owner="vendor"):
        time_out(lock, 1)
        until(lambda: "1 acquires timed out within 3600 s" in caplog.text)
    assert client.stats().alarms == 1


def test_a_lock_may_have_no_alarm_or_its_own(server: Server, name: str) -> None:
    told: list[holdfast.Alarm] = []
    with (
        holdfast.connect(server.tcp, alarm=(1, 3600), on_alarm=told.append) as client,
        client.lock(name, owner="vendor"),
    ):
        time_out(client.lock(name, alarm=None), 3)
        time_out(client.lock(name, holdfast.LockOptions(alarm=(2, 60))), 2)
        until(lambda: told)
    assert [alarm.timeouts for alarm in told] == [2]


def test_tasks_raise_the_alarm_and_it_is_not_told_in_their_loop(server: Server, name: str) -> None:
    threads: list[threading.Thread] = []

    def tell(alarm: holdfast.Alarm) -> None:
        assert alarm.name == name
        threads.append(threading.current_thread())

    async def main(client: holdfast.Client) -> None:
        lock = client.aio.lock(name)
        for _ in range(2):
            assert await lock.acquire(timeout=0.01) is False
        while not threads:
            await asyncio.sleep(0.002)

    with (
        holdfast.connect(server.tcp, alarm=(2, 3600), on_alarm=tell) as client,
        client.lock(name, owner="vendor"),
    ):
        asyncio.run(main(client))
    assert threads != [threading.main_thread()]


def test_a_function_that_fails_is_logged_and_called_again(
    server: Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    def fail(alarm: holdfast.Alarm) -> None:
        called.append(alarm.name)
        raise RuntimeError("no pager")

    with holdfast.connect(server.tcp, alarm=(1, 3600), on_alarm=fail) as client:
        for each in (name, f"{name} 2"):
            with client.lock(each, owner="vendor"):
                time_out(client.lock(each), 1)
        until(lambda: caplog.text.count("on_alarm failed") == 2)
    assert called == [name, f"{name} 2"]


@pytest.mark.redis
def test_a_lazy_client_hears_alarms(server: Server, name: str) -> None:
    told: list[holdfast.Alarm] = []
    with (
        holdfast.connect(server.tcp, lazy=True, alarm=(1, 60), on_alarm=told.append) as client,
        client.lock(name, owner="vendor"),
    ):
        time_out(client.lock(name), 1)
        until(lambda: told)


@pytest.mark.redis
def test_a_forked_child_hears_its_own_alarms(server: Server, name: str) -> None:
    told: list[holdfast.Alarm] = []
    with holdfast.connect(server.tcp, alarm=(1, 60), on_alarm=told.append) as client:
        lock = client.lock(name)
        with client.lock(name, owner="vendor"):
            child = os.fork()
            if child == 0:
                outcome = 1
                try:
                    time_out(lock, 1)
                    until(lambda: told)
                    outcome = 0
                finally:
                    os._exit(outcome)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert told == []
        assert client.stats().alarms == 0


@pytest.mark.redis
def test_a_closed_client_has_no_thread_for_alarms(server: Server) -> None:
    before = threading.enumerate()
    client = holdfast.connect(server.tcp, alarm=(1, 60))
    (listener,) = set(threading.enumerate()) - set(before)
    client.close()
    until(lambda: not listener.is_alive())


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (10, "alarm must be"),
        ((10,), "alarm must be"),
        ([10, 60], "alarm must be"),
        ((0, 60), "the timeouts of alarm must be from 1"),
        ((1.5, 60), "the timeouts of alarm must be a whole number"),
        ((1, 0), "the window of alarm must be from 0.001"),
        ((1, "60"), "the window of alarm must be seconds"),
    ],
)
def test_a_wrong_rule_is_refused(server: Server, rule: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        holdfast.connect(server.tcp, alarm=rule)
    with pytest.raises((TypeError, ValueError), match=message):
        holdfast.LockOptions(alarm=rule)


def test_other_wrong_arguments_are_refused(server: Server) -> None:
    wrong: list[dict[str, Any]] = [
        {"on_alarm": "page"},
        {"count_names": 1},
        {"names_max": 0},
        {"names_max": 10001},
    ]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError), match=next(iter(arguments))):
            holdfast.connect(server.tcp, **arguments)
    with pytest.raises(TypeError, match="count_name"):
        holdfast.LockOptions(count_name="yes")  # type: ignore[arg-type]
