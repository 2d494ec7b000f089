"""Addresses and servers, good and bad, each with its own clear error."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

import fake
import holdfast
from conftest import Server, until
from running import free_port

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "url",
    ["", "localhost:6379", "redis://:6379", "http://localhost", "redis+cluster://localhost/1"],
)
def test_a_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL|scheme|only the database 0"):
        holdfast.connect(url)


def test_a_url_must_be_text_without_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        holdfast.connect("redis://localhost\0.example.com")
    with pytest.raises(ValueError, match="percent-encode") as refused:  # as if from os.environ
        holdfast.connect(f"redis://:{SECRET}\udce4@localhost")
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    with pytest.raises(TypeError, match="url must be str"):
        holdfast.connect(b"redis://localhost")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="url must be str"):
        holdfast.connect(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["valkey", "REDIS"])
def test_a_scheme_may_be_valkeys_and_in_any_case(scheme: str, server: Server) -> None:
    with holdfast.connect(server.tcp.replace("redis://", f"{scheme}://")) as client:
        assert client.lock("scheme").acquire(timeout=0)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), 1e300, 0.0001])
def test_a_timeout_of_a_client_must_be_a_duration(wrong: float, server: Server) -> None:
    with pytest.raises(ValueError, match="connect_timeout must be from"):
        holdfast.connect(server.tcp, connect_timeout=wrong)
    with pytest.raises(ValueError, match="command_timeout must be from"):
        holdfast.connect(server.tcp, command_timeout=wrong)
    with pytest.raises(TypeError):
        holdfast.connect(server.tcp, connect_timeout="2")  # type: ignore[arg-type]


# ------------------------------------------------------------- No server there


def test_a_server_that_refuses_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(holdfast.ConnectError, match=f"127.0.0.1:{port}") as caught:
        holdfast.connect(f"redis://127.0.0.1:{port}")
    assert isinstance(caught.value, ConnectionError)
    assert isinstance(caught.value, holdfast.LockError)


def test_a_socket_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    with pytest.raises(holdfast.ConnectError, match="absent.sock"):
        holdfast.connect(f"unix://{tmp_path}/absent.sock")


# ------------------------------------------------------------------ Logging in


@pytest.fixture
def user(raw: redis.Redis) -> Iterator[str]:
    """Make a user of the server, whose password is SECRET."""
    raw.acl_setuser(
        "fred", enabled=True, passwords=[f"+{SECRET}"], categories=["+@all"], keys=["*"]
    )
    yield "fred"
    raw.acl_deluser("fred")


def address(server: Server) -> str:
    return urlsplit(server.tcp).netloc


def test_a_user_and_a_password_are_taken_from_the_url(
    server: Server, user: str, name: str, raw: redis.Redis
) -> None:
    with holdfast.connect(f"redis://{user}:{SECRET}@{address(server)}/3") as client:
        assert SECRET not in repr(client)
        with client.lock(name):
            assert not raw.exists(name)  # it is in database 3
    path = urlsplit(server.unix).path
    if path:
        with holdfast.connect(f"unix://{user}:{SECRET}@{path}?db=3") as client:
            assert client.lock(name).acquire() is True


def test_a_wrong_password_is_refused_and_never_told(server: Server, user: str) -> None:
    with pytest.raises(holdfast.AuthenticationError, match="password") as caught:
        holdfast.connect(f"redis://{user}:{SECRET}wrong@{address(server)}")
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    for wrong in ("redis://fred:{}@host:port", "http://fred:{}@host"):
        with pytest.raises(ValueError, match="URL|scheme") as refused:
            holdfast.connect(wrong.format(SECRET))
        assert SECRET not in str(refused.value)


# ----------------------------------------------------------------- Bad servers


def test_a_server_that_answers_garbage_is_no_redis() -> None:
    with (
        fake.server(lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n") as url,
        pytest.raises(holdfast.ProtocolError),
    ):
        holdfast.connect(url, connect_timeout=20)


def test_a_redis_older_than_6_2_is_refused() -> None:
    with (
        fake.server(fake.redis_of_version(b"6.0.16")) as url,
        pytest.raises(holdfast.UnsupportedError, match="6[.]0[.]16.*6[.]2|6[.]2.*6[.]0[.]16"),
    ):
        holdfast.connect(url, connect_timeout=20)


def test_a_lost_answer_to_an_acquire_is_neither_yes_nor_no() -> None:
    good = fake.redis_of_version(b"7.0.15")

    def answer(words: list[bytes]) -> bytes:
        return good(words) if words[0] == b"HELLO" else b""

    def unknown() -> bool:
        try:
            client.lock("x").acquire(timeout=0.3)
        except holdfast.LockUnknown:
            return True
        except holdfast.ConnectError:  # the machine stood still before the request was sent
            return False
        raise AssertionError("yes or no")

    quickly: Any = {"connect_timeout": 0.3, "command_timeout": 0.3}
    with (
        fake.server(answer) as url,
        holdfast.connect(url, lazy=True, **quickly) as client,
    ):
        until(unknown)


def test_an_error_of_the_server_is_passed_on() -> None:
    good = fake.redis_of_version(b"7.0.15")

    def answer(words: list[bytes]) -> bytes:
        return good(words) if words[0] == b"HELLO" else b"-ERR out of l\xffck\r\n"

    with (
        fake.server(answer) as url,
        holdfast.connect(url, connect_timeout=20) as client,
        pytest.raises(holdfast.ServerError, match=r"out of l\\xffck"),
    ):
        client.lock("x").acquire()


# --------------------------------------------------------------------- Options


def named(raw: redis.Redis, name: str) -> int:
    return sum(each["name"] == name for each in raw.client_list())


def test_the_last_fence_lives_as_long_as_told(server: Server, raw: redis.Redis, name: str) -> None:
    for life, least, most in ((60, 30000, 60000), (None, 86000000, 86400000)):
        with holdfast.connect(server.tcp, fence_life=life) as client:
            with client.lock(name):
                pass
            assert least <= raw.pttl(f"{{{name}}}{name}:hf1:f") <= most
    with pytest.raises(ValueError, match="fence_life must be from 1.0 to"):
        holdfast.connect(server.tcp, fence_life=0.5)


def test_the_options_reach_the_server(server: Server, raw: redis.Redis, name: str) -> None:
    options: dict[str, Any] = {"keepalive": 5, "client_name": "till-7"}
    with holdfast.connect(server.tcp, command_timeout=20, **options) as client:
        assert named(raw, "till-7") == 1
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            taken = pool.map(lambda n: client.lock(f"{name}{n}").acquire(timeout=20), range(50))
            assert all(taken)
        assert 1 <= named(raw, "till-7") <= 3  # two for requests, one for grants
    with holdfast.connect(f"{server.tcp}?client_name=till-8&keepalive=0"):
        assert named(raw, "till-8") == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"client_name": ""},
        {"client_name": "two words"},
        {"client_name": "x" * 64},
        {"client_name": "caf\xe9"},
        {"keepalive": -1},
    ],
)
def test_a_wrong_option_is_refused_by_name(wrong: dict[str, Any], server: Server) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        holdfast.connect(server.tcp, **wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"client_name": 5}, "client_name must be str, not 5"),
        ({"lazy": "yes"}, "lazy must be True, False or None, not 'yes'"),
        ({"close_at_exit": 1}, "close_at_exit must be True or False, not 1"),
        ({"keepalive": "5"}, "keepalive must be seconds, a number or a timedelta, not '5'"),
    ],
)
def test_an_option_of_a_wrong_type_is_refused_by_name(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        holdfast.connect("redis://localhost:1", **wrong)


# ------------------------------------------------------------------------ Lazy


def test_a_lazy_client_checks_its_address_at_once() -> None:
    for wrong in ("redis://:6379", "http://localhost", "redis://localhost?nonsense=1"):
        with pytest.raises(ValueError, match="URL|scheme|nonsense"):
            holdfast.connect(wrong, lazy=True)


def test_an_argument_overrides_the_lazy_of_the_url() -> None:
    url = f"redis://127.0.0.1:{free_port()}?connect_timeout=0.2"
    holdfast.connect(url + "&lazy=on").close()
    with pytest.raises(holdfast.ConnectError):
        holdfast.connect(url + "&lazy=on", lazy=False)
    with pytest.raises(holdfast.ConnectError):
        holdfast.connect(url + "&lazy=off")
    holdfast.connect(url + "&lazy=off", lazy=True).close()


def test_a_client_that_cannot_connect_leaves_sigterm_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(holdfast.ConnectError):
            holdfast.connect("redis://127.0.0.1:1?connect_timeout=0.1", sigterm=True)
        assert signal.getsignal(signal.SIGTERM) is before is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_lazy_client_connects_when_it_is_used(name: str) -> None:
    port = free_port()
    with holdfast.connect(f"redis://127.0.0.1:{port}", lazy=True) as client:
        lock = client.lock(name)
        with pytest.raises(holdfast.ConnectError, match=f"127.0.0.1:{port}"):
            lock.acquire(timeout=0.1)
        with pytest.raises(holdfast.ConnectError):
            asyncio.run(client.aio.lock(name).acquire(timeout=0.1))
        words = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
        with subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *words], stdout=subprocess.DEVNULL
        ) as process:
            try:
                assert lock.acquire(timeout=20) is True
                assert asyncio.run(client.aio.lock(name + "2").acquire(timeout=20)) is True
            finally:
                process.kill()


# ------------------------------------------- A close that crosses another thread's call

# The server answers the PING only after the client is closed.
CROSSED = """
import threading, fake, holdfast
asked, closed = threading.Event(), threading.Event()
good = fake.redis_of_version(b"7.0.15")

def answer(words):
    if words[0] != b"PING":
        return good(words)
    asked.set()
    closed.wait()
    return b"+PONG\\r\\n"

def ping():
    try:
        client.ping()
    except holdfast.LockError:
        pass

with fake.server(answer) as url:
    client = holdfast.connect(url, command_timeout=20)
    thread = threading.Thread(target=ping)
    thread.start()
    asked.wait()
    client.close()
    closed.set()
    thread.join()
"""


def test_a_close_leaves_the_memory_to_a_call_under_way() -> None:
    perturbed = {**os.environ, "MALLOC_PERTURB_": "165", "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", CROSSED],
        cwd=Path(__file__).parent,
        env=perturbed,
        capture_output=True,
        timeout=30,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_close_that_crosses_a_call_ends_it_with_closed_error(server: Server) -> None:
    client = holdfast.connect(server.tcp)

    class Crossed(dict[int, Any]):
        def get(self, key: int, default: Any = None) -> Any:
            found = super().get(key, default)
            client.close()
            return found

        def __contains__(self, key: object) -> bool:
            there = super().__contains__(key)
            client.close()
            return there

    client._handles = Crossed(client._handles)
    with pytest.raises(holdfast.ClosedError):
        client.stats()


# ------------------------------------------------------------------ Exceptions


def test_all_exceptions_are_lock_errors_and_can_be_sent_elsewhere() -> None:
    errors: list[Any] = [getattr(holdfast, each) for each in holdfast.__all__]
    errors = [each for each in errors if isinstance(each, type) and issubclass(each, Exception)]
    assert holdfast.LockLost in errors
    for each in errors:
        assert issubclass(each, holdfast.LockError)
        assert each.__module__ == "holdfast"
        made = each("stock", 1, 2) if each is holdfast.StaleFence else each("why")
        copy = pickle.loads(pickle.dumps(made))
        assert type(copy) is each
        assert str(copy) == (str(made) if each is holdfast.StaleFence else "why")


def test_every_status_has_its_exception() -> None:
    from holdfast import _errors, _holdfast

    statuses = {
        value
        for key, value in vars(_holdfast).items()
        if key.startswith("HF_E")
        and key not in ("HF_EXCLUSIVE", "HF_EDONE")  # a result is no exception
        and isinstance(value, int)
    }
    assert statuses == set(_errors._CLASSES)
