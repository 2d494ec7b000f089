"""A server to run the scripts on."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
import time
from typing import Any

import redis
from clock import Clock
from typing_extensions import Self


class Server:
    """A redis-server on a socket in its own folder; it ends with the block, or with this
    program."""

    def __init__(
        self, program: str = "redis-server", *options: str, port: int = 0, stands: bool = False
    ) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast."))
        self.clock = Clock(self.folder) if stands else None
        self.socket = str(self.folder / "socket")
        self.process = subprocess.Popen(
            [
                *["setpriv", "--pdeathsig", "KILL"],
                program,
                "--port",
                str(port),
                "--unixsocket",
                self.socket,
                "--dir",
                str(self.folder),
                "--save",
                "",
                "--appendonly",
                "no",
                *options,
            ],
            stdout=subprocess.DEVNULL,
            env=self.clock and self.clock.environment,
        )
        for _ in range(200):
            try:
                self.redis = self.connect()
                self.redis.ping()
                break
            except redis.exceptions.ConnectionError:
                if self.process.poll() is not None:
                    self.close()
                    raise SystemExit(f"{program} ended") from None
                time.sleep(0.05)
        else:
            self.close()
            raise SystemExit(f"{program} does not start")
        version = self.redis.info("server")["redis_version"]
        self.version = tuple(int(part) for part in version.split(".")[:2])

    def connect(self, **options: Any) -> redis.Redis:
        return redis.Redis(unix_socket_path=self.socket, decode_responses=True, **options)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
