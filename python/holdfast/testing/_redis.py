"""A private Redis server."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PROGRAMS = ("redis-server", "valkey-server")
_SECONDS = 20  # for the start

# Ends the server, and removes its folder, when the input ends: even if this process is killed.
_KEEPER = """
folder=$1
shift
exec 3<&0
"$@" >"$folder/log" 2>&1 </dev/null 3<&- &
server=$!
{ read -r _ <&3; rm -rf "$folder"; kill -KILL $server; } >/dev/null 2>&1 &
wait $server
kill -KILL $! 2>/dev/null
"""


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Start a Redis server for the tests alone, and return its URL.

    It is redis-server (or valkey-server) from the PATH, on a free port of 127.0.0.1. It keeps
    nothing on disk. It ends with the `with` block, and also if the process is killed.

    Raises RuntimeError if there is no such program, or if it does not start.
    """
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise RuntimeError(
            "there is no redis-server in the PATH: install the package that Debian, Fedora and"
            " Homebrew call redis-server or redis, or use holdfast.testing.MemoryClient, which"
            " needs no server"
        )
    for _ in range(10):
        with contextlib.ExitStack() as stack:
            url = stack.enter_context(_started(program))
            if url is not None:  # else another process took the port meanwhile
                yield url
                return
    raise RuntimeError(f"{program} found no free port")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def _started(program: str) -> Iterator[str | None]:
    """Run a server, and return its URL; None if the port is taken."""
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="holdfast.", ignore_cleanup_errors=True) as folder:
        options = f"--port {port} --bind 127.0.0.1 --unixsocket {folder}/socket --dir {folder}"
        command = [program, *options.split(), "--save", "", "--appendonly", "no"]
        keeper = subprocess.Popen(
            ["sh", "-c", _KEEPER, "sh", folder, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
            start_new_session=True,  # Ctrl-C is for the tests
        )
        try:
            yield f"redis://127.0.0.1:{port}" if _answers(keeper, Path(folder)) else None
        finally:
            keeper.communicate()


def _answers(keeper: subprocess.Popen[bytes], folder: Path) -> bool:
    """Wait until the server answers; return False if it has ended because its port is taken."""
    end = time.monotonic() + _SECONDS
    while keeper.poll() is None:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_SECONDS)
            asked.connect(str(folder / "socket"))
            asked.sendall(b"PING\r\n")
            if asked.recv(5) == b"+PONG":
                return True
        if time.monotonic() > end:
            break
        time.sleep(0.01)
    log = (folder / "log").read_text(errors="replace")
    if "Address already in use" in log:
        return False
    raise RuntimeError(f"the Redis server did not start:\n{log}")


def tell(url: str, command: str) -> None:
    """Send a command to a server of redis_server()."""
    host, _, port = url.removeprefix("redis://").rpartition(":")
    with socket.create_connection((host, int(port)), _SECONDS) as asked:
        asked.sendall(command.encode() + b"\r\n")
        answer = asked.recv(64)
    if answer != b"+OK\r\n":
        raise RuntimeError(f"the Redis server answered {answer!r} to {command}")


def flush(url: str) -> None:
    """Empty the server."""
    tell(url, "FLUSHALL")
