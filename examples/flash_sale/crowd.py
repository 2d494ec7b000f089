"""The buyers: six processes in three languages; each buyer is a thread."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import queue
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LANGUAGES = {"c": "C", "python": "Python", "java": "Java"}
PROCESSES = 2  # of each language
PATIENCE = 60.0  # seconds for the slowest step, on the slowest machine


@dataclasses.dataclass(frozen=True)
class Purchase:
    """The report of one buyer."""

    buyer: int
    language: str
    order: int  # this buyer was the n-th to read the stock
    stock: int  # as this buyer read it
    bought: bool
    fence: int


class Crowd:
    """The buyers' processes, and their messages."""

    def __init__(self) -> None:
        self._said: queue.Queue[dict | str] = queue.Queue()
        self._heard = {word: collections.deque() for word in ("ready", "order")}
        self._processes: dict[tuple[str, int], subprocess.Popen] = {}

    def start(self, commands: dict[str, list[str]], shop: dict[str, str]) -> None:
        """Start the processes and wait until all of them are ready."""
        for language in ("java", "python", "c"):  # the slowest to start first
            for index in range(PROCESSES):
                process = subprocess.Popen(
                    commands[language],
                    env={**os.environ, **shop},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    bufsize=1,
                    start_new_session=True,  # run.py handles Ctrl-C
                )
                self._processes[language, index] = process
                threading.Thread(target=self._listen, args=(language, process), daemon=True).start()
        for _ in self.hear(len(self._processes), "ready"):
            pass

    def _listen(self, language: str, process: subprocess.Popen) -> None:
        for line in process.stdout:
            self._said.put(json.loads(line))
        self._said.put(f"a {LANGUAGES[language]} process ended early, with status {process.wait()}")

    def hear(self, count: int, word: str) -> Iterator[dict]:
        """Wait for `count` messages that contain `word`; keep other messages for later."""
        while count > 0:
            while not self._heard[word]:
                try:
                    message = self._said.get(timeout=PATIENCE)
                except queue.Empty:
                    sys.exit(f"flash sale: {count} more should have said {word!r} by now")
                if isinstance(message, str):
                    sys.exit(f"flash sale: {message}")
                self._heard[next(kind for kind in self._heard if kind in message)].append(message)
            count -= 1
            yield self._heard[word].popleft()

    def send_in(self, buyer: int, language: str, mode: str) -> None:
        """Let a buyer in: a thread of one of the language's processes."""
        process = self._processes[language, buyer // len(LANGUAGES) % PROCESSES]
        process.stdin.write(f"{mode} {buyer}\n")

    def look(self) -> None:
        """Check that no process has ended."""
        for (language, _), process in self._processes.items():
            if process.poll() is not None:
                sys.exit(f"flash sale: a {LANGUAGES[language]} process ended early")

    def go_home(self) -> None:
        for process in self._processes.values():
            process.stdin.close()
        for process in self._processes.values():
            process.wait(PATIENCE)

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def purchases(self, buyers: int) -> Iterator[Purchase]:
        """The buyers' reports, in the order in which the buyers read the stock."""
        early: dict[int, Purchase] = {}
        following = 1
        for message in self.hear(buyers, "order"):
            purchase = Purchase(**message)
            early[purchase.order] = purchase
            while following in early:
                yield early.pop(following)
                following += 1
