"""Servers that behave as no good Redis does."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import BinaryIO

Answer = Callable[[list[bytes]], bytes]


def command(stream: BinaryIO) -> list[bytes]:
    """Read one command; empty at the end."""
    words = []
    for _ in range(int(stream.readline()[1:] or 0)):
        length = int(stream.readline()[1:])
        words.append(stream.read(length + 2)[:-2])
    return words


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[str]:
    """Answer every command in this way, and close after an answer that is b"" or cut off."""
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with (
            contextlib.suppress(OSError, ValueError),
            connection,
            connection.makefile("rb") as said,
        ):
            while words := command(said):
                text = answer(words)
                connection.sendall(text)
                if not text.endswith(b"\r\n"):
                    return

    def accept() -> None:
        with contextlib.suppress(OSError):
            while not ended.is_set():
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            listener.shutdown(socket.SHUT_RDWR)


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def redis_of_version(version: bytes) -> Answer:
    """Greet as Redis of that version does."""

    def answer(words: list[bytes]) -> bytes:
        if words[0] == b"INFO":
            return bulk(b"# Server\r\nredis_version:" + version + b"\r\nredis_mode:standalone\r\n")
        if words[0] == b"HELLO":
            pairs = {b"server": b"redis", b"version": version, b"mode": b"standalone"}
            parts = [bulk(part) for pair in pairs.items() for part in pair]
            return b"*%d\r\n" % len(parts) + b"".join(parts)
        return b"-ERR unknown command `" + words[0] + b"`, with args beginning with: \r\n"

    return answer
