"""The Python waiters of mixed.py, which starts this program and describes them.

Threads and tasks of one client.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import random
import signal
import sys
import threading
import time
from concurrent.futures import Future

import redis
import redis.asyncio

import holdfast

HOST, PORT, LOCK, ROUNDS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])


def take_turns(client: holdfast.Client, number: int) -> None:
    server = redis.Redis(HOST, PORT)
    lock = client.lock(LOCK)
    for _ in range(ROUNDS):
        with lock.hold(timeout=60) as hold:
            count = int(server.get("counter"))
            server.set("counter", count + 1)
            server.rpush("log", f"python:{number}:{hold.fence}")
        time.sleep(random.uniform(0, 0.003))
    server.close()


async def take_turns_aio(client: holdfast.Client, number: int) -> None:
    server = redis.asyncio.Redis(host=HOST, port=PORT)
    lock = client.aio.lock(LOCK)
    for _ in range(ROUNDS):
        async with lock.hold(timeout=60) as hold:
            count = int(await server.get("counter"))
            await server.set("counter", count + 1)
            await server.rpush("log", f"asyncio:{number}:{hold.fence}")
        await asyncio.sleep(random.uniform(0, 0.003))
    await server.aclose()


def check_limit(client: holdfast.Client) -> None:
    try:
        client.lock(f"{LOCK}:pool", permits=9).shared().acquire(timeout=0)
    except holdfast.LimitDiffers as differs:
        if "has 2 permits, and this acquire gives 9" in str(differs):
            return
        raise
    raise AssertionError("9 permits passed a limit of 2")


def in_a_thread(work, *arguments) -> Future:
    ended = Future()

    def run() -> None:
        try:
            ended.set_result(work(*arguments))
        except BaseException as failure:
            ended.set_exception(failure)

    threading.Thread(target=run, daemon=True).start()
    return ended


def give_up_if_failed(ended: Future) -> None:
    if ended.exception():
        sys.excepthook(*(lambda e: (type(e), e, e.__traceback__))(ended.exception()))
        os._exit(1)


def main() -> None:
    faulthandler.register(signal.SIGQUIT)
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with holdfast.connect(f"redis://{HOST}:{PORT}?connect_timeout=20") as client:
        check_limit(client)
        print("ready python asyncio", flush=True)
        waiters = []
        for line in sys.stdin:
            kind, number = line.split()
            if kind == "python":
                waiters.append(in_a_thread(take_turns, client, int(number)))
            else:
                task = take_turns_aio(client, int(number))
                waiters.append(asyncio.run_coroutine_threadsafe(task, loop))
            waiters[-1].add_done_callback(give_up_if_failed)
        for waiter in waiters:
            waiter.result()


if __name__ == "__main__":
    main()
