"""The Python worker of run.py: threads and tasks that use locks, and write down what they get.

    worker.py URL RESOURCE-PORT HISTORY LOCKS

ends when standard input does. README.md describes the form of a history.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import random
import sys
import threading
import time

import redis
import redis.asyncio

import holdfast

URL, RESOURCE, HISTORY, LOCKS = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
TAKE = """
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or 0) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('RPUSH', KEYS[2], ARGV[1])
return 1
"""
stop = threading.Event()
history = os.open(HISTORY, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
numbers = itertools.count(1)
PERMITS = 2
PLAIN = "+quorum:" in URL  # several masters: no results, and no shared holds
DAY = 86400  # a paid result outlasts every step of a clock
ROUND = 2_000_000_000  # ns during which the workers ask for the same call


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def tell(**event) -> None:
    os.write(history, (json.dumps(event) + "\n").encode())


def plan() -> tuple[str, dict, float, dict, float]:
    """Return a key, whether it is shared, how long to wait, the lease, and how long to hold it."""
    key, mode = f"job:{random.randrange(LOCKS)}", {}
    lease = random.choice(({"lease": 1.0, "renew": True}, {"lease": 0.4, "renew": False}))
    match random.randrange(8) if not PLAIN else None:
        case 0:
            mode = {"shared": True}
        case 1:
            key, mode = "pool", {"shared": True, "permits": PERMITS}
            lease["permits"] = PERMITS
    wait = random.choice((0, 0.2, 5, 5))
    hold = random.choice((0, 0.005, 0.02, 0.05, 0.3, 0.7)) * random.random()
    return key, mode, wait, lease, hold


def asked() -> tuple[str, str, int, dict]:
    """Return a call that many workers want made at about the same time: its result, number and
    terms."""
    op = next(numbers)
    key, how = f"once:{now() // ROUND}", {"ttl": 60}
    if random.random() < 0.5:
        key, how = f"paid:{now() // ROUND}", {"ttl": DAY, "at_most_once": True}
    tell(e="try", op=op, k=key, at=now(), wait=5)
    return key, f"python-{os.getpid()}-{op}", op, {**how, "timeout": 5}


def said(op: int, result: str) -> str:
    """Settle a call whose outcome is unknown, or leave it; return what was done."""
    verb = random.choice(("", "resolve", "retry"))
    if verb:
        tell(e=verb, op=op, at=now(), result=f"{result}-said")
    return verb


def ask_once(client: holdfast.Client) -> None:
    key, result, op, how = asked()

    def make() -> str:
        tell(e="call", op=op, at=now())
        time.sleep(0.2 * random.random())
        if random.random() < 0.2:
            raise RuntimeError("the next one makes it")
        tell(e="made", op=op, at=now(), result=result)
        return result

    try:
        tell(e="result", op=op, result=client.once(key, make, **how), at=now())
    except (holdfast.LockError, RuntimeError) as why:
        tell(e="not", op=op, at=now(), why=type(why).__name__)
        if isinstance(why, holdfast.OutcomeUnknown):
            with contextlib.suppress(holdfast.LockError):
                match said(op, result):
                    case "resolve":
                        why.resolve(f"{result}-said", ttl=DAY)
                    case "retry":
                        why.retry()


async def ask_once_aio(client: holdfast.Client) -> None:
    key, result, op, how = asked()

    async def make() -> str:
        tell(e="call", op=op, at=now())
        await asyncio.sleep(0.2 * random.random())
        tell(e="made", op=op, at=now(), result=result)
        return result

    wanted = client.aio.once(key, make, **how)
    try:
        got = await asyncio.wait_for(wanted, 0.1 if random.random() < 0.2 else None)
        tell(e="result", op=op, result=got, at=now())
    except (holdfast.LockError, TimeoutError, asyncio.TimeoutError) as why:
        tell(e="not", op=op, at=now(), why=type(why).__name__)
        if isinstance(why, holdfast.OutcomeUnknown):
            with contextlib.suppress(holdfast.LockError):
                match said(op, result):
                    case "resolve":
                        await why.resolve(f"{result}-said", ttl=DAY)
                    case "retry":
                        await why.retry()


def sure(hold, op: int) -> bool:
    before = now()  # the clock first: a process that is stopped in between is certain of less
    left = hold.remaining
    if left <= 0:
        return False
    tell(e="sure", op=op, at=before, until=before + int(left * 1e9))
    return True


def work(client: holdfast.Client) -> None:
    resource = redis.Redis("127.0.0.1", RESOURCE)
    while not stop.is_set():
        if not PLAIN and random.random() < 0.1:
            ask_once(client)
            continue
        key, mode, wait, lease, long = plan()
        op = next(numbers)
        tell(e="try", op=op, k=key, at=now(), wait=wait, **mode)
        try:
            lock = client.lock(key, **lease)
            hold = (lock.shared() if mode else lock).hold(timeout=wait)
        except holdfast.LockError as why:
            tell(e="not", op=op, at=now(), why=type(why).__name__)
            continue
        tell(e="got", op=op, at=now(), fence=hold.fence)
        until = time.monotonic() + long
        while True:
            if not sure(hold, op) and random.random() < 0.5:
                break  # the others are careless, and the resource must notice
            if not mode:  # shared holders write nothing
                taken = resource.eval(TAKE, 2, key, "log:" + key, hold.fence)
                tell(e="write", op=op, at=now(), taken=taken)
            if time.monotonic() >= until:
                break
            time.sleep(0.02 * random.random())
        tell(e="end", op=op, at=now())
        how = "OK"
        try:
            hold.release()
        except holdfast.LockError as why:
            how = type(why).__name__
        tell(e="gone", op=op, at=now(), how=how)


async def work_aio(client: holdfast.Client) -> None:
    resource = redis.asyncio.Redis(host="127.0.0.1", port=RESOURCE)
    while not stop.is_set():
        if not PLAIN and random.random() < 0.1:
            await ask_once_aio(client)
            continue
        key, mode, wait, lease, long = plan()
        op = next(numbers)
        tell(e="try", op=op, k=key, at=now(), wait=wait, **mode)
        cancel = random.random() < 0.1
        try:
            lock = client.aio.lock(key, **lease)
            wanted = (lock.shared() if mode else lock).hold(timeout=wait)
            hold = await asyncio.wait_for(wanted, 0.1 * random.random() if cancel else None)
        except (holdfast.LockError, TimeoutError, asyncio.TimeoutError) as why:
            tell(e="not", op=op, at=now(), why=type(why).__name__)
            continue
        tell(e="got", op=op, at=now(), fence=hold.fence)
        until = time.monotonic() + long
        while sure(hold, op):
            if not mode:
                taken = await resource.eval(TAKE, 2, key, "log:" + key, hold.fence)
                tell(e="write", op=op, at=now(), taken=taken)
            if time.monotonic() >= until:
                break
            await asyncio.sleep(0.02 * random.random())
        tell(e="end", op=op, at=now())
        how = "OK"
        try:
            await hold.release()
        except holdfast.LockError as why:
            how = type(why).__name__
        tell(e="gone", op=op, at=now(), how=how)
    await resource.aclose()


async def work_in_tasks(client: holdfast.Client) -> None:
    await asyncio.gather(*(work_aio(client) for _ in range(3)))


def connect() -> holdfast.Client:
    while True:
        try:
            return holdfast.connect(URL)
        except holdfast.LockError:  # not now
            if stop.wait(0.05):
                sys.exit()


def until_told() -> None:
    sys.stdin.read()
    stop.set()


def main() -> None:
    failed = []

    def guarded(what, *arguments) -> None:
        try:
            what(*arguments)
        except BaseException as why:
            failed.append(why)
            raise

    threading.Thread(target=until_told, daemon=True).start()
    with connect() as client:
        workers = [threading.Thread(target=guarded, args=(work, client)) for _ in range(2)]
        tasks = threading.Thread(target=guarded, args=(lambda: asyncio.run(work_in_tasks(client)),))
        for thread in (*workers, tasks):
            thread.start()
        for thread in (*workers, tasks):
            thread.join()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
