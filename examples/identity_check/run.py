"""An identity check: a vendor charges for every call, and 100 callers ask for one identity at once.

The callers are threads of three processes, in C, Python and Java (asker.c, asker.py, Asker.java).
First they ask through once(), under a name made of the three fields; then each asks for itself.

This starts a private redis-server, the vendor and the askers, and checks the charges. It ends with
status 0 only if once() cost one charge, and every caller got the answer.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import holdfast.testing
from vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0  # seconds for the slowest step, on the slowest machine
IDENTITY = {"name": "Ada Lovelace", "number": "L01X00T47", "born": "1815-12-10"}


def fail(why: str) -> NoReturn:
    sys.exit(f"identity check: {why}")


def name_of(identity: dict[str, str]) -> str:
    """Return a name with a digest of the fields: a name is public on the server, the fields are
    not."""
    fields = json.dumps(identity, sort_keys=True).encode()
    return f"identity:{hashlib.sha256(fields).hexdigest()}"


class Askers:
    """The three processes, and their messages."""

    def __init__(self, commands: dict[str, list[str]], environment: dict[str, str]) -> None:
        self._said: queue.Queue[dict[str, Any] | str] = queue.Queue()
        self._processes = {
            language: subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for language, command in commands.items()
        }
        for language, process in self._processes.items():
            threading.Thread(target=self._listen, args=(language, process), daemon=True).start()

    def _listen(self, language: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._said.put(json.loads(line))
        self._said.put(f"the askers in {language} ended with status {process.wait()}")

    def hear(self, count: int) -> Iterator[dict[str, Any]]:
        for _ in range(count):
            try:
                said = self._said.get(timeout=PATIENCE)
            except queue.Empty:
                fail("an asker has no answer")
            if isinstance(said, str):
                fail(said)
            yield said

    def ask(self, how: str, askers: dict[str, int], name: str) -> list[dict[str, Any]]:
        """Let all callers ask at once; return their answers."""
        for language, count in askers.items():
            stdin = self._processes[language].stdin
            assert stdin is not None
            stdin.write(f"{how} {count} {name}\n")
        return list(self.hear(sum(askers.values())))

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An identity check that is charged once.")
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="of CMake")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    parser.add_argument("--askers", type=int, default=100)
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run")
    arguments = parser.parse_args()
    if arguments.askers < 3:
        parser.error("it takes an asker in each language")
    return arguments


def commands(arguments: argparse.Namespace) -> dict[str, list[str]]:
    program = arguments.build_dir / "examples" / "identity_check_asker_c"
    jars = sorted((HERE.parents[1] / "java" / "target").glob("holdfast-[0-9]*[0-9].jar"))
    if not program.exists() or not jars:
        fail("it is not built: run scripts/demo, which builds all of it")
    java = [arguments.java, "--enable-native-access=ALL-UNNAMED", "-XX:TieredStopAtLevel=1"]
    return {
        "c": [str(program.resolve())],
        "python": [sys.executable, str(HERE / "asker.py")],
        "java": [*java, "-cp", str(jars[0]), str(HERE / "Asker.java")],
    }


def main() -> int:
    arguments = parse_arguments()
    each, more = divmod(arguments.askers, 3)
    askers = {name: each + (i < more) for i, name in enumerate(("c", "python", "java"))}
    with contextlib.ExitStack() as afterwards:
        vendor = Vendor()
        afterwards.callback(vendor.shutdown)
        port = str(vendor.server_address[1])
        environment = {
            "REDIS": afterwards.enter_context(holdfast.testing.redis_server()),
            "VENDOR": f"http://127.0.0.1:{port}/check",
            "VENDOR_PORT": port,
            **{f"IDENTITY_{field.upper()}": value for field, value in IDENTITY.items()},
        }
        crowd = Askers(commands(arguments), environment)
        afterwards.callback(crowd.kill)
        list(crowd.hear(len(askers)))  # until they are ready

        began = time.monotonic()
        answers = crowd.ask("once", askers, name_of(IDENTITY))
        seconds = time.monotonic() - began
        charges = vendor.charges
        crowd.ask("each", askers, name_of(IDENTITY))
        charges_without = vendor.charges - charges

    same = {json.dumps(each["answer"], sort_keys=True) for each in answers}
    in_order = charges == 1 and same == {'{"charge": 1, "valid": true}'}
    shares = ", ".join(f"{count} in {name}" for name, count in askers.items())
    print(f"IDENTITY CHECK  {arguments.askers} ask at once for the same identity: {shares}\n")
    print(
        "  c       hf_once_begin(lock, 60000, NULL, NULL, 0, &hold); ... hf_once_finish(hold, ...);"
    )
    print("  python  client.once(name, ask_vendor, ttl=60)")
    print("  java    client.once(name, Duration.ofMinutes(1), Codec.UTF_8, () -> askVendor())\n")
    mark = "✓" if in_order else "✗"
    print(f"  {mark} with once(): charges {charges}, different answers {len(same)}")
    print(f"    each for itself: charges {charges_without}")
    if arguments.json:
        figures = {
            "askers": arguments.askers,
            "by_language": askers,
            "charges": charges,
            "answers": len(answers),
            "different_answers": len(same),
            "charges_without_once": charges_without,
            "seconds": round(seconds, 3),
        }
        arguments.json.write_text(json.dumps(figures) + "\n")
    return 0 if in_order else 1


if __name__ == "__main__":
    sys.exit(main())
