"""For test_by_hand.py: a process with the locks in Python, by hand and replaced.

Its argument is the URL of the server. It follows commands on standard input:

enter WAY KEY LEASE
    A thread takes the lock with an expiry or a lease of LEASE ms, and prints that it is in.
write VALUE
    The thread inside writes VALUE to the resource, with its fence; prints written or refused.
leave [RESULT], fail
    The thread inside leaves, or fails. Prints that it is out, with the result of
    shared_result, or the name of an exception.
"""

from __future__ import annotations

import queue
import sys
import threading
from pathlib import Path
from typing import Any

import redis

import holdfast

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "by_hand"))
import shared_result
import token_lock

WRITE = """
if ARGV[2] ~= '0' then
    if tonumber(ARGV[2]) < tonumber(redis.call('get', KEYS[2]) or 0) then return 0 end
    redis.call('set', KEYS[2], ARGV[2])
end
redis.call('set', KEYS[1], ARGV[1])
return 1
"""

store = redis.Redis.from_url(sys.argv[1])
client = holdfast.connect(sys.argv[1], connect_timeout=20)
told: queue.Queue[str] = queue.Queue()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def inside(key: str, fence: int = 0) -> str:
    say("in")
    while True:
        what, _, value = told.get().partition(" ")
        if what == "leave":
            return value
        if what == "fail":
            raise ValueError("the call failed")
        done = store.eval(WRITE, 2, f"{{{key}}}:data", f"{{{key}}}:fence", value, fence)
        say("written" if done else "refused")


def section(way: str, key: str, seconds: float) -> Any:
    options: Any = {"lease": seconds, "renew": True}
    if way == "token":
        with token_lock.TokenLock(store, key, seconds):
            return inside(key)
    if way == "token-replaced":
        return token_lock.in_place_of_it(client.lock(key, **options), lambda f: inside(key, f))
    if way == "result":
        patience = max(1, int(seconds))
        return shared_result.result(store, key, lambda: inside(key).encode(), patience, 60).decode()
    return shared_result.in_place_of_it(client, key, lambda: inside(key), **options)


def enter(way: str, key: str, milliseconds: str) -> None:
    try:
        say(f"out {section(way, key, float(milliseconds) / 1000) or ''}".strip())
    except Exception as error:
        say(type(error).__name__)


say("ready")
for line in sys.stdin:
    if line.startswith("enter "):
        threading.Thread(target=enter, args=line.split()[1:], daemon=True).start()
    else:
        told.put(line.strip())
