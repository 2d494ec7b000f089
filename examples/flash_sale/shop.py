"""A few lines of the Redis protocol: enough to keep a shop's stock, without a package to
install."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Shop:
    """A connection to the Redis that the `SHOP_*` variables name."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        if path := environment.get("SHOP_SOCKET"):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path)
        else:
            address = (environment["SHOP_HOST"], int(environment["SHOP_PORT"]))
            self._socket = socket.create_connection(address)
        self._answers = self._socket.makefile("rb")
        if password := environment.get("SHOP_PASSWORD"):
            self.ask("AUTH", environment["SHOP_USER"], password)
        self.ask("SELECT", environment["SHOP_DATABASE"])

    def ask(self, *words: object) -> int:
        """Send a command that returns a number, "OK", or a number as text."""
        parts = [str(word).encode() for word in words]
        request = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)
        self._socket.sendall(request)
        answer = self._answers.readline()
        if not answer or answer.startswith(b"-"):
            raise ConnectionError(answer.decode().strip() or "the shop has closed")
        if answer.startswith(b"$") and answer != b"$-1\r\n":
            answer = b":" + self._answers.readline()
        return int(answer[1:]) if answer.startswith(b":") else 0

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
