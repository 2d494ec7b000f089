"""A flash sale: 10 things in stock, 100 buyers at once, in C, Python and Java.

Each buyer reads the stock, thinks for 3 ms and writes one less: two commands, so that only the lock
keeps two buyers apart. First all buyers queue for one lock and buy in turn, then they buy again
without the lock.

This is the conductor. It starts a private redis-server and two processes of buyers per language
(buyer.c, buyer.py, Buyer.java), sends the buyers in, and checks who bought what. It ends with
status 0 only if the sale under the lock was in order.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import holdfast
from crowd import LANGUAGES, PATIENCE, PROCESSES, Crowd, Purchase
from shop import Shop

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent


def fail(why: str) -> NoReturn:
    sys.exit(f"flash sale: {why}")


# ------------------------------------------------------------------ Redis


def die_with_parent() -> None:
    """End the server even if the conductor is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def is_open(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@contextlib.contextmanager
def private_redis() -> Iterator[str]:
    """Start a server of our own on a unix socket, with nothing on disk."""
    if shutil.which("redis-server") is None:
        fail("no redis-server found; install one or give --redis URL")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = f"{folder}/redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]
        command += ["--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent, start_new_session=True
        )
        try:
            deadline = time.monotonic() + PATIENCE
            while not is_open(path):
                if server.poll() is not None or time.monotonic() > deadline:
                    fail("redis-server did not start")
                time.sleep(0.01)
            yield f"unix://{urllib.parse.quote(path)}"
        finally:
            server.kill()
            server.wait()


def shop_environment(url: str, prefix: str) -> dict[str, str]:
    """Return the buyers' settings, as an environment: a command line is public."""
    parts = urllib.parse.urlsplit(url)
    shop = {
        "SHOP_URL": url,
        "SHOP_LOCK": f"{prefix}:sale",
        "SHOP_STOCK": f"{prefix}:stock",
        "SHOP_ORDER": f"{prefix}:order",
    }
    if parts.scheme == "unix":
        shop["SHOP_SOCKET"] = urllib.parse.unquote(parts.path)
        database = urllib.parse.parse_qs(parts.query).get("db", ["0"])[0]
    else:
        shop["SHOP_HOST"] = parts.hostname or "localhost"
        shop["SHOP_PORT"] = str(parts.port or 6379)
        database = parts.path.strip("/") or "0"
    shop["SHOP_DATABASE"] = database
    if parts.password:
        shop["SHOP_USER"] = urllib.parse.unquote(parts.username or "") or "default"
        shop["SHOP_PASSWORD"] = urllib.parse.unquote(parts.password)
    return shop


# ------------------------------------------------------------ The output

HUES = {"c": 36, "python": 33, "java": 35, "good": 32, "bad": 31, "bold": 1, "dim": 2}


class Paper:
    """Plain text, in colour on a terminal."""

    def __init__(self) -> None:
        sys.stdout.reconfigure(encoding="utf-8", line_buffering=True)
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def ink(self, hue: str, text: str) -> str:
        return f"\033[{HUES[hue]}m{text}\033[0m" if self._colour else text

    def title(self, text: str, aside: str = "") -> None:
        print(f"{self.ink('bold', text)}  {self.ink('dim', aside)}".rstrip() + "\n")

    def snippet(self, language: str, code: str) -> None:
        print(f"  {self.ink(language, f'{LANGUAGES[language]:<6}')}  {code}")

    def bought(self, purchase: Purchase) -> None:
        language = self.ink(purchase.language, f"{LANGUAGES[purchase.language]:<6}")
        print(
            f"  buyer {purchase.buyer:>3}  {language}  bought item {purchase.stock:>2}"
            f"   fence {purchase.fence}"
        )

    def left_empty_handed(self, some: list[Purchase]) -> None:
        if not some:
            return
        print(f"  Sold out. {len(some)} more held the lock in their turn and left with nothing:")
        tags = [f"{p.buyer:>4}{p.language[0].upper()}" for p in some]
        for start in range(0, len(tags), 15):
            print("  " + self.ink("dim", "".join(tags[start : start + 15])))
        print()

    def verdict(self, holds: bool, text: str) -> bool:
        print("  " + (self.ink("good", "✓ ") if holds else self.ink("bad", "✗ ")) + text)
        return holds


# --------------------------------------------------------------- The sale


def line_up(buyers: int) -> list[str]:
    """Return the buyers' languages: each group of three has one buyer of each language."""
    threes = (random.sample(list(LANGUAGES), len(LANGUAGES)) for _ in range(buyers))
    return list(itertools.islice(itertools.chain.from_iterable(threes), buyers))


class Sale:
    """One sale: a stock, and its buyers."""

    def __init__(self, shop: dict[str, str], crowd: Crowd, stock: int, buyers: int) -> None:
        self._shop = shop
        self._crowd = crowd
        self._counter = Shop(shop)
        self.stock = stock
        self.buyers = buyers
        self.line = line_up(buyers)

    def restock(self) -> None:
        self._counter.ask("SET", self._shop["SHOP_STOCK"], self.stock)
        self._counter.ask("SET", self._shop["SHOP_ORDER"], 0)

    def remaining(self) -> int:
        return self._counter.ask("GET", self._shop["SHOP_STOCK"])

    def queue(self, lock: holdfast.Lock) -> None:
        """Let the buyers queue for the lock, one after the other."""
        deadline = time.monotonic() + PATIENCE
        for buyer, language in enumerate(self.line, start=1):
            self._crowd.send_in(buyer, language, "locked")
            while lock.inspect().waiters < buyer:
                self._crowd.look()
                if time.monotonic() > deadline:
                    fail(f"buyer {buyer}, in {LANGUAGES[language]}, does not queue")
                time.sleep(0.001)

    def with_lock(self, lock: holdfast.Lock, paper: Paper) -> tuple[bool, dict]:
        """Return whether the sale was in order, and its figures."""
        self.restock()
        told: list[Purchase] = []

        # The lock is the door: it opens when every buyer is in the queue.
        with lock as door:
            self.queue(lock)
        for purchase in self._crowd.purchases(self.buyers):
            told.append(purchase)
            if purchase.bought:
                paper.bought(purchase)

        sold = [purchase for purchase in told if purchase.bought]
        paper.left_empty_handed([purchase for purchase in told if not purchase.bought])

        remaining = self.remaining()
        fences = [door.fence] + [purchase.fence for purchase in told]
        rising = all(earlier < later for earlier, later in itertools.pairwise(fences))
        in_turn = [purchase.buyer for purchase in told] == list(range(1, self.buyers + 1))
        by_language = {name: sum(p.language == name for p in sold) for name in LANGUAGES}
        shares = ", ".join(f"{LANGUAGES[name]} {count}" for name, count in by_language.items())
        in_order = [
            paper.verdict(
                len(sold) == min(self.stock, self.buyers),
                f"exactly {len(sold)} sold, {remaining} left",
            ),
            paper.verdict(
                remaining == self.stock - len(sold) and len({p.stock for p in sold}) == len(sold),
                "none oversold: no item went to two buyers",
            ),
            paper.verdict(
                in_turn,
                f"all {len(told)} were served in the order in which they queued",
            ),
            paper.verdict(
                rising and len(told) == self.buyers,
                f"{len(told)} fences, every one larger than the one before",
            ),
            paper.verdict(
                {purchase.language for purchase in told} == set(LANGUAGES),
                f"all three languages took part: {shares}",
            ),
        ]
        return all(in_order), {
            "sold": len(sold),
            "remaining": remaining,
            "fences_increasing": rising,
            "by_language": by_language,
        }

    def without_lock(self, paper: Paper) -> int:
        """Return how many things were sold."""
        self.restock()
        for buyer, language in enumerate(self.line, start=1):
            self._crowd.send_in(buyer, language, "unlocked")
        sold = [purchase for purchase in self._crowd.purchases(self.buyers) if purchase.bought]
        item, times = Counter(purchase.stock for purchase in sold).most_common(1)[0]
        paper.verdict(
            len(sold) <= self.stock,
            f"{len(sold)} sold, of {self.stock}: {len(sold) - self.stock} buyers paid for nothing",
        )
        paper.verdict(times == 1, f"item {item} alone went to {times} buyers")
        return len(sold)


def hold_sales(sale: Sale, lock: holdfast.Lock) -> tuple[bool, dict]:
    """Hold the sale with and without the lock, and describe both; return whether the first was in
    order."""
    paper = Paper()
    began = time.monotonic()
    crowd = ", ".join(f"{sale.line.count(name)} in {title}" for name, title in LANGUAGES.items())
    paper.title("FLASH SALE", f"{sale.stock} in stock, {sale.buyers} buyers at once")
    print(f"  {crowd}, as threads of {PROCESSES} processes each.")
    print("  A buyer reads the stock, thinks for 3 ms, and writes one less.")

    print()
    paper.title("With the lock", f"one queue: buyer 1 came first, buyer {sale.buyers} last")
    paper.snippet("c", "hf_lock_acquire(lock, 60000, &hold); ... hf_hold_release(hold);")
    paper.snippet("python", "with lock.hold(timeout=60) as hold: ...")
    paper.snippet("java", "try (Hold hold = lock.acquire(Duration.ofSeconds(60))) { ... }")
    print()
    in_order, figures = sale.with_lock(lock, paper)

    print()
    paper.title("Without the lock", "the same buyers, the same code")
    sold_without_lock = sale.without_lock(paper)

    seconds = time.monotonic() - began
    print(f"\n  All in {seconds:.1f} s.")
    return in_order, {
        "stock": sale.stock,
        "buyers": sale.buyers,
        **figures,
        "sold_without_lock": sold_without_lock,
        "seconds": round(seconds, 3),
    }


# ----------------------------------------------------------------- Set-up


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A flash sale in C, Python and Java at once.")
    parser.add_argument("--build-dir", type=Path, default=Path("build/dev"), help="of CMake")
    parser.add_argument("--redis", metavar="URL", help="your server; default: a private one")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there")
    parser.add_argument("--stock", type=int, default=10)
    parser.add_argument("--buyers", type=int, default=100)
    parser.add_argument("--c-buyer", type=Path, help="default: in the build directory")
    parser.add_argument("--jar", type=Path, help="default: java/target/holdfast-*.jar")
    parser.add_argument("--java", default="java", help="the Java 17 (or newer) to run")
    arguments = parser.parse_args()
    if arguments.stock < 1 or arguments.buyers < len(LANGUAGES):
        parser.error("a sale takes something in stock and a buyer of each language")
    return arguments


def buyer_commands(arguments: argparse.Namespace) -> dict[str, list[str]]:
    program = arguments.c_buyer or arguments.build_dir / "examples" / "flash_sale_buyer_c"
    target = HERE.parents[1] / "java" / "target"
    jar = arguments.jar or next(iter(sorted(target.glob("holdfast-[0-9]*[0-9].jar"))), None)
    if not program.exists():
        fail(f"{program} is not built")
    if jar is None or not jar.exists():
        fail(f"{jar or target / 'holdfast-*.jar'} is not built")
    return {
        "c": [str(program.resolve())],
        "python": [sys.executable, str(HERE / "buyer.py")],
        "java": [
            arguments.java,
            "--enable-native-access=ALL-UNNAMED",  # or Java 24 and newer warn
            "-XX:TieredStopAtLevel=1",  # a sale is too short for the second compiler to pay off
            *("-cp", str(jar), str(HERE / "Buyer.java")),
        ],
    }


def leave_no_trace(shop: dict[str, str]) -> None:
    lock = shop["SHOP_LOCK"]
    keys = [shop["SHOP_STOCK"], shop["SHOP_ORDER"], lock]
    keys += [f"{{{lock}}}{lock}:hf1:{suffix}" for suffix in "qf"]  # see docs/protocol.md
    Shop(shop).ask("DEL", *keys)


def stop(signal_number: int, _frame: object) -> NoReturn:
    sys.exit(128 + signal_number)  # an exception, so that everything that was started is stopped


def main() -> int:
    arguments = parse_arguments()
    commands = buyer_commands(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)

    with contextlib.ExitStack() as afterwards:
        url = arguments.redis or afterwards.enter_context(private_redis())
        try:
            client = afterwards.enter_context(holdfast.connect(url))
        except (holdfast.LockError, ValueError) as error:
            fail(str(error))
        shop = shop_environment(url, f"holdfast-demo-{secrets.token_hex(4)}")
        if arguments.redis:
            afterwards.callback(leave_no_trace, shop)
        crowd = Crowd()
        afterwards.callback(crowd.kill)
        crowd.start(commands, shop)
        sale = Sale(shop, crowd, arguments.stock, arguments.buyers)
        lock = client.lock(shop["SHOP_LOCK"], lease=PATIENCE)
        in_order, figures = hold_sales(sale, lock)
        crowd.go_home()

    if arguments.json:
        arguments.json.write_text(json.dumps(figures) + "\n")
    return 0 if in_order else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader of the output has gone, as in `run.py | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
