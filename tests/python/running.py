"""Programs that run beside a test, and the answers of web servers among them."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

Start = Callable[..., "subprocess.Popen[str]"]


def needs(framework: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(framework) is None
    return pytest.mark.skipif(missing, reason=f"{framework} is not installed")


@contextlib.contextmanager
def programs(folder: Path, **variables: str) -> Iterator[Start]:
    """Start programs in that folder; they end with the block."""
    started: list[subprocess.Popen[str]] = []
    variables["PYTHONUNBUFFERED"] = "1"

    def begin(*command: str, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", sys.executable, *command],
            cwd=folder,
            env={**os.environ, **variables, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    try:
        yield begin
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=20)


def ended(process: subprocess.Popen[str]) -> str:
    """End the program as an operator does; return its output."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=40)[0]


def free_port() -> int:
    """Find a port that no connection is given, so that it is still free for a start or a
    restart."""
    while True:
        port = random.randrange(18_000, 20_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Answer:
    """The answer of a web server."""

    def __init__(self, port: int, method: str, path: str, **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            headers = {key.replace("_", "-"): value for key, value in headers.items()}
            connection.request(method, path, headers=headers)
            response = connection.getresponse()
            self.status = response.status
            self.retry_after = response.headers["Retry-After"]
            self.text = response.read().decode()
        finally:
            connection.close()


def listens(port: int, process: subprocess.Popen[str]) -> bool:
    assert process.poll() is None, process.communicate()[0]
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def gunicorn(port: int, *more: str) -> list[str]:
    """Return the command of a gunicorn with two workers; the application follows."""
    where = ["--bind", f"127.0.0.1:{port}", "--workers", "2", "--log-level", "warning"]
    return ["-m", "gunicorn", "--no-control-socket", *where, *more]
