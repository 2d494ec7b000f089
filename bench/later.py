"""What a release costs a caller that does not wait for it, beside raw redis-py, in one run.

    tests/with-redis build/venv/bin/python bench/later.py

Each pair is of another lock: a caller that asks for the same lock again soon waits for its release.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable

import redis

import holdfast

ROUNDS, PAIRS = 15, 400
ONE_WAY = 0.001  # seconds
SCRIPT = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) end return 0"


def main() -> None:
    url = os.environ["HOLDFAST_TEST_URL"]
    print("on this machine:")
    measure(url, ROUNDS)
    host, port = url.removeprefix("redis://").split(":")
    near: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
    proxy = multiprocessing.Process(target=delay, args=(host, int(port), near), daemon=True)
    proxy.start()
    print(f"over a network with a round trip of {2 * ONE_WAY * 1e3:g} ms and more:")
    measure(f"redis://127.0.0.1:{near.get()}", 3)
    proxy.kill()


def delay(host: str, port: int, near: multiprocessing.SimpleQueue[int]) -> None:
    """Forward connections, and all their data a while later."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(65536):
            loop.call_later(ONE_WAY, writer.write, data)
        loop.call_later(ONE_WAY, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, answers = await asyncio.open_connection(host, port)
        await asyncio.gather(forward(reader, answers), forward(there, writer))

    async def serve() -> None:
        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        near.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def measure(url: str, rounds: int) -> None:
    raw = redis.Redis.from_url(url)
    release = raw.register_script(SCRIPT)
    client = holdfast.connect(url)
    waits = [client.lock(f"wait:{n}") for n in range(PAIRS)]
    later = [client.lock(f"later:{n}", release="later") for n in range(PAIRS)]

    def redis_pair(n: int) -> None:
        raw.set(f"raw:{n}", "token", nx=True, px=10_000)
        release(keys=[f"raw:{n}"], args=["token"])

    def pair(locks: list[holdfast.Lock]) -> Callable[[int], None]:
        def one(n: int) -> None:
            locks[n].hold().release()

        return one

    ways = {"redis-py, raw": redis_pair, "release()": pair(waits), "later": pair(later)}
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            for n in range(PAIRS):
                way(n)
            took[name].append((time.perf_counter() - began) / PAIRS)
            time.sleep(0.02)  # until the last answers arrive
    base = statistics.median(took["release()"])
    for name, times in took.items():
        each = statistics.median(times)
        print(f"{name:15} {each * 1e6:7.1f} us a pair   {each / base:5.2f} x release()")
    client.close()


if __name__ == "__main__":
    main()
