"""For neighbours.py: one process with a lock of Holdfast, of redis-py or of python-redis-lock.

Follows commands on standard input; each answer is a line, or lines up to an empty one:

contend KEY UNTIL PAUSE [WAKE]
    Take turns under the lock until the time.time() UNTIL, with pauses of up to PAUSE ms between
    them. After each, publish on the channel WAKE that it has ended. Prints the turns, the longest
    wait in seconds, and how often acquire() raised instead of waiting.
theirs KEY
    Prints the answer of each of its methods while Holdfast holds the key, and the key's fate.
    Except for acquires, the object held the lock until the key was deleted under it.
ours KEY
    The reverse.
"""

from __future__ import annotations

import contextlib
import math
import random
import sys
import time
from collections.abc import Callable, Iterator

import redis
import redis_lock

import holdfast

LEASE = 12  # seconds, for all: no program can be blamed for a lease that ended
PREFIX = "lock:"  # python-redis-lock puts it before its names


class Resource:
    """The resource that the lock protects. It detects two users at once."""

    def __init__(self, host: str, port: int) -> None:
        """Connect to the Redis of the locks, in another database."""
        self._store = redis.Redis(host, port, db=1)

    def use(self, key: str, fence: int | None) -> None:
        """Check that no other process is inside for a moment; write what was read before."""
        inside = f"{key}:inside"
        began = time.monotonic()
        if self._store.incr(inside) != 1:
            raise SystemExit("another is inside already")
        turns = int(self._store.get(f"{key}:turns") or 0)
        time.sleep(random.uniform(0, 0.002))
        if self._store.get(inside) != b"1":
            raise SystemExit("another came inside")
        self._store.set(f"{key}:turns", turns + 1)
        if fence is not None and int(self._store.getset(f"{key}:fence", fence) or 0) >= fence:
            raise SystemExit("a fence that is not greater than the one before")
        if self._store.decr(inside) != 0:
            raise SystemExit("another came inside before the end")
        if time.monotonic() - began > LEASE / 2:
            raise SystemExit("this machine is too slow to tell: a turn took half a lease")


# ------------------------------------------------------- The locks of each kind


class Kind:
    """A library, as far as all are alike."""

    def __init__(self, client: redis.Redis, ours: holdfast.Client) -> None:
        """Give both libraries their clients."""
        self.client, self.ours = client, ours

    def make(self, key: str) -> object:
        """Make a lock."""
        raise NotImplementedError

    @contextlib.contextmanager
    def held(self, key: str, seconds: float) -> Iterator[tuple[bool, int | None]]:
        """Wait at most that time for the lock; yield whether it is held, and its fence."""
        raise NotImplementedError

    def methods(self, lock) -> dict[str, Callable[[], object]]:
        """Return the lock's methods."""
        return {}


class Holdfast(Kind):
    """Holdfast."""

    @contextlib.contextmanager
    def held(self, key, seconds):
        """Acquire as any user would."""
        lock = self.ours.lock(key, lease=LEASE, renew=True)
        try:
            with lock.hold(timeout=seconds) as hold:
                yield True, hold.fence
        except holdfast.LockTimeout:
            yield False, None


class RedisPy(Kind):
    """redis.lock.Lock."""

    def make(self, key):
        """Make a lock with a timeout, which it needs."""
        return self.client.lock(key, timeout=LEASE)

    @contextlib.contextmanager
    def held(self, key, seconds):
        """Acquire; it polls every 0.1 s."""
        lock = self.make(key)
        held = lock.acquire(blocking_timeout=seconds)
        yield held, None
        if held:
            lock.release()

    def methods(self, lock):
        """Return all its methods."""
        return {
            "acquire(blocking=False)": lambda: lock.acquire(blocking=False),
            "acquire(blocking_timeout=0.2)": lambda: lock.acquire(blocking_timeout=0.2),
            "locked()": lock.locked,
            "owned()": lock.owned,
            "release()": lock.release,
            "extend(1)": lambda: lock.extend(1),
            "reacquire()": lock.reacquire,
        }


class PythonRedisLock(Kind):
    """redis_lock.Lock."""

    def make(self, key):
        """Make a lock with an expiry, which it needs."""
        return redis_lock.Lock(self.client, key.removeprefix(PREFIX), expire=LEASE)

    @contextlib.contextmanager
    def held(self, key, seconds):
        """Acquire; it waits only for its own kind, whole seconds, and at most for its expiry."""
        lock = self.make(key)
        held = lock.acquire(timeout=min(LEASE, max(1, math.ceil(seconds))))
        yield held, None
        if held:
            lock.release()

    def methods(self, lock):
        """Return all its methods."""
        return {
            "acquire(blocking=False)": lambda: lock.acquire(blocking=False),
            "acquire(timeout=1)": lambda: lock.acquire(timeout=1),
            "locked()": lock.locked,
            "get_owner_id()": lock.get_owner_id,
            "extend(1)": lambda: lock.extend(1),
            "release()": lock.release,
            "reset()": lock.reset,
            "reset_all()": lambda: redis_lock.reset_all(self.client),
        }


KINDS = {"holdfast": Holdfast, "redis-py": RedisPy, "python-redis-lock": PythonRedisLock}


# ---------------------------------------------------------------------- Commands


def contend(
    kind: Kind, resource: Resource, key: str, until: str, pause: str, wake: str = ""
) -> str:
    """Take turns."""
    turns = refused = 0
    longest = 0.0
    began = time.time()
    while (left := float(until) - time.time()) > 0:
        try:
            with kind.held(key, left) as (held, fence):
                if held:
                    longest = max(longest, time.time() - began)
                    resource.use(key, fence)
                    turns += 1
        except redis.ResponseError as error:
            # python-redis-lock reads the key before it waits for the lock.
            if "WRONGTYPE" not in str(error):
                raise
            refused += 1
            time.sleep(random.uniform(0, 0.02))
            continue
        if wake:
            kind.client.publish(wake, 0)
        time.sleep(random.uniform(0, float(pause) / 1000))
        began = time.time()
    return f"{turns} {longest:.3f} {refused}"


def said(method: Callable[[], object]) -> str:
    """Return what a method returns or raises."""
    try:
        return repr(method())
    except Exception as error:
        wrong = " WRONGTYPE" if "WRONGTYPE" in str(error) else ""
        return type(error).__name__ + wrong


def theirs(kind: Kind, key: str) -> Iterator[str]:
    """Call each method."""
    for name in kind.methods(kind.make(key)):
        lock = kind.make(key)
        method = kind.methods(lock)[name]
        if not name.startswith("acquire"):
            assert lock.acquire()
            kind.client.delete(key)
        our = kind.ours.lock(key, lease=10)
        assert our.acquire(timeout=5)
        before = kind.client.hgetall(key)
        answer = said(method)
        after = kind.client.hgetall(key)
        fate = "untouched" if after == before else "changed" if after else "gone"
        with contextlib.suppress(holdfast.LockNotOwnedError):
            our.release()
        yield f"{name}\t{answer}\t{fate}"


def ours(kind: Kind, key: str) -> Iterator[str]:
    """Call each method the other way round."""
    for name, method in {
        "acquire(blocking=False)": lambda our: our.acquire(blocking=False),
        "acquire(timeout=0.1)": lambda our: our.acquire(timeout=0.1),
        "locked()": lambda our: our.locked(),
        "inspect().foreign": lambda our: our.inspect().foreign,
        "force_release(0)": lambda our: our.force_release(0),
        "release()": lambda our: our.release(),
        "extend(1)": lambda our: our.extend(1),
        "reacquire()": lambda our: our.reacquire(),
    }.items():
        our = kind.ours.lock(key, lease=10)
        if not name.startswith("acquire"):
            assert our.acquire(timeout=5)
            kind.client.delete(key)
        lock = kind.make(key)
        assert lock.acquire()
        before = kind.client.get(key), kind.client.pttl(key)
        answer = said(lambda method=method, our=our: method(our))
        after = kind.client.get(key), kind.client.pttl(key)
        same = after[0] == before[0] and before[1] - LEASE * 500 < after[1] <= before[1]
        yield f"{name}\t{answer}\t{'untouched' if same else 'changed'}"
        lock.release()


def main() -> None:
    """Follow the commands."""
    name, host, port = sys.argv[1:]
    resource = Resource(host, int(port))
    with (
        redis.Redis(host, int(port)) as client,
        holdfast.connect(f"redis://{host}:{port}?connect_timeout=20") as our,
    ):
        kind = KINDS[name](client, our)
        client.ping()
        print("ready", flush=True)
        for line in sys.stdin:
            what, key, *rest = line.split()
            if what == "contend":
                print(contend(kind, resource, key, *rest), flush=True)
            else:
                for answer in {"theirs": theirs, "ours": ours}[what](kind, key):
                    print(answer)
                print(flush=True)


if __name__ == "__main__":
    main()
