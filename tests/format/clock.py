"""The clock of the servers of a test."""

from __future__ import annotations

import mmap
import os
import pathlib
import struct
import time


class Clock:
    """Stands for the servers that are started with its environment, so that no pause of the machine
    ends a lease: HOLDFAST_TEST_STEP is the library of tests/preload/step.c. Without it, the
    system's clock."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.environment, self.numbers = dict(os.environ), memoryview(bytes(24)).cast("q")
        self.stands = "HOLDFAST_TEST_STEP" in os.environ
        if self.stands:
            file = folder / "clock"
            file.write_bytes(struct.pack("qqq", 0, int(time.time() * 1e6), 0))
            with file.open("r+b") as opened:
                self.numbers = memoryview(mmap.mmap(opened.fileno(), 24)).cast("q")
            self.environment["LD_PRELOAD"] = os.environ["HOLDFAST_TEST_STEP"]
            self.environment["HOLDFAST_TEST_CLOCK"] = str(file)

    def now(self) -> float:
        return self.numbers[1] / 1e6 if self.stands else time.time()

    def each_look_us(self, us: int) -> None:
        """Let the clock go on by us at each reading, as if the server stood still; 0: no longer."""
        if self.stands:
            self.numbers[2] = us

    def pass_ms(self, ms: int) -> None:
        """Let ms pass. Each reading adds a microsecond, so the time begins a new millisecond."""
        if self.stands:
            now = self.numbers[1]
            self.numbers[1] = now + ms * 1000 - now % 1000
        else:
            time.sleep(ms / 1000)
