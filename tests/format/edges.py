#!/usr/bin/env python3
"""Cases that random steps do not reach: permissions, memory, foreign locks, clocks, bad numbers.

    edges.py [--server PROGRAM]

Starts its own redis-server. Prints what is wrong, and fails if anything is.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import socket
import sys
import time

import redis
from server import Server
from texts import NOBODY, Keys, member, scripts

DAY = 86400000
REDISSON = """
if ((redis.call('exists', KEYS[1]) == 0)
or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]);
return nil; end;
return redis.call('pttl', KEYS[1]);"""


TERMS = "m" + "-" * 64  # at most once, without a print


def hold(n: int) -> str:
    return f"a{n:031x}"


CLIENTS = [hold(0xC0 + n) for n in range(3)]


class Lock:
    """Requests for one lock; errors of the server are returned as answers."""

    def __init__(
        self,
        server: Server,
        name: str = "lock",
        user: redis.Redis | None = None,
        kind: str = "p",
        texts: dict[str, str] | None = None,
    ) -> None:
        self.r, self.keys, self.kind = user or server.redis, Keys(name), kind
        self.texts = texts or scripts()
        self.limits = 0
        self.settles = 0

    def run(self, name: str, keys: list[str], *words):
        try:
            return self.r.eval(self.texts[name], len(keys), *keys, *words)
        except redis.exceptions.RedisError as error:
            return error

    def take(self, n: int, lease=30000, floor: int = 0):
        return self.run(
            "take", [self.keys.K, self.keys.F], "h" + hold(n), f"o{n}", lease, f"{floor:016d}"
        )

    def share(self, n: int, lease=30000, permits=0, floor: int = 0):
        keys = [self.keys.K, self.keys.F, self.keys.S]
        return self.run("share", keys, hold(n), f"o{n}", lease, permits, f"{floor:016d}")

    def leave(self, n: int, fence: str = ""):
        return self.run("leave", [self.keys.K, self.keys.S], hold(n), fence or self.fence(n))

    def member(
        self,
        n: int,
        client: str = CLIENTS[0],
        mode: str = "x",
        lease: int = 30000,
        timeout: int = 0,
    ) -> str:
        return member(hold(n), client, mode, lease, f"o{n}", timeout, self.kind)

    def wait(self, n: int, **more):
        return self.run("wait", [self.keys.K, self.keys.Q], self.member(n, **more), f"o{n}")

    def acquire(
        self,
        n: int,
        mode: str = "x",
        wait: bool = True,
        client: str = CLIENTS[0],
        lease=30000,
        nests="0",
        score=0,
        floor=0,
        owner: str = "",
        text: str | None = None,
    ):
        if text is None:
            text = (
                member(hold(n), client, mode, lease, owner or f"o{n}", 0, self.kind) if wait else ""
            )
        return self.run(
            "acquire",
            [*self.keys.all, self.keys.dead(hold(n))],
            floor,
            hold(n),
            owner or f"o{n}",
            lease,
            mode,
            nests,
            text,
            score,
        )

    def kick(self):
        return self.run("acquire", self.keys.all, 0)

    def release(self, n: int, fence: str = "", *more, bury: int = 0, long: bool = True):
        words = [bury, "", *more] if long or more or bury else []
        keys = self.keys.all + ([self.keys.dead(hold(n))] if bury else [])
        return self.run("release", keys, hold(n), fence, *words)

    def finish(
        self, n: int, how: str = "d", text: str = "bytes", ms=20000, fence: str = "", terms=TERMS
    ):
        return self.release(n, fence or self.fence(n), ms, text, how, terms)

    def begin(self, n: int, terms: str = TERMS, ms=0, note: str = "", fence: str = ""):
        keys = [self.keys.K, self.keys.S, self.keys.R]
        return self.run("begin", keys, hold(n), fence or self.fence(n), terms, ms, note)

    def settle(self, verb, fence, who=0, force=0, ms=20000, text="hand", note=""):
        self.settles += 1
        who = hold(who or 2000 + self.settles)
        keys = [*self.keys.all, self.keys.dead(who)]
        return self.run("settle", keys, verb, fence, who, force, ms, text, "settler", note)

    def short(self, n: int):
        return self.release(n, self.fence(n), long=False)

    def fence(self, n: int) -> str:
        fields = self.r.hgetall(self.keys.K)
        for name, value in fields.items():
            if name[:33] in ("h" + hold(n), "s" + hold(n)):
                return name[33:] or value[1:17]
        return fields.get("hf1", "0" * 49)[33:49]

    def cancel(self, n: int, bury: int = 0, client: str = CLIENTS[0]):
        return self.run(
            "cancel",
            [*self.keys.all, self.keys.dead(hold(n))],
            hold(n),
            bury,
            self.member(n, client),
        )

    def claim(self, n: int, lease: int = 30000):
        return self.run(
            "claim", [self.keys.K, self.keys.F, self.keys.S], CLIENTS[0], hold(n), lease, 0
        )

    def renew(self, *ids: int, lease: int = 30000, mode: int = 0):
        words = []
        for n in ids:
            words += [hold(n) + self.fence(n), lease, mode, len(ids) + 1]
        return self.run("renew", [self.keys.K] * len(ids) + [self.keys.S], *words)

    def inspect(self):
        keys = [self.keys.K, self.keys.Q, self.keys.S, self.keys.R, self.keys.F]
        return self.run("inspect", keys, 0, 100)

    def limit(self, permits, per=0, n=None):
        """Store the limit by a request of its own, or by a copy of request n."""
        self.limits += 1
        dead = self.keys.dead(hold(n or 1000 + self.limits))
        return self.run("limit", [self.keys.K, self.keys.F, dead], permits, per)

    def holder(self) -> int:
        value = self.r.hget(self.keys.K, "hf1")
        return int(value[1:32], 16) if value else 0

    def state(self):
        return (
            self.r.hgetall(self.keys.K)
            if self.r.type(self.keys.K) == "hash"
            else self.r.type(self.keys.K),
            self.r.pttl(self.keys.K),
            self.r.hgetall(self.keys.F)
            if self.r.type(self.keys.F) == "hash"
            else self.r.get(self.keys.F),
            self.r.zrange(self.keys.Q, 0, -1),
        )


class Edges:
    def __init__(
        self, program: str, texts: dict[str, str] | None = None, quiet: bool = False
    ) -> None:
        self.program, self.texts, self.quiet, self.wrong = program, texts, quiet, []

    def expect(self, what: str, right, *more) -> None:
        if not right:
            self.wrong.append(what)
            if not self.quiet:
                print("WRONG", what, *more)

    def all(self, cluster: bool = True) -> list[str]:
        with Server(self.program, stands=True) as server:
            self.clock = server.clock
            self.server, self.old = server, server.version < (7, 0)
            listener = server.connect().pubsub()
            listener.subscribe(*("hf:" + client for client in CLIENTS))
            for _ in CLIENTS:
                next(listener.listen())
            names = sorted(name for name in dir(self) if name.startswith("test_"))
            names.sort(key=lambda name: name == "test_permissions")  # the longest
            for name in names:
                if self.quiet and self.wrong:
                    break
                server.redis.flushall()
                self.lock = Lock(server, texts=self.texts)
                self.keys = self.lock.keys
                try:
                    getattr(self, name)(self.lock, server.redis)
                except (
                    TypeError,
                    IndexError,
                    AttributeError,
                    redis.exceptions.RedisError,
                ) as error:
                    self.expect(f"{name}: {error!r}", False)
        if cluster and server.version >= (7, 0):
            self.cluster()
        return self.wrong

    # ------------------------------------------------------------ Permissions

    def as_user(self, r: redis.Redis) -> Lock:
        """Return the lock for the user "u", who may do everything that is not taken away."""
        r.acl_setuser(
            "u",
            enabled=True,
            reset=True,
            passwords=["+p"],
            keys=["*"],
            channels=["*"],
            commands=["+@all"],
        )
        user = self.server.connect(username="u", password="p")
        user.ping()  # until it has logged in
        return Lock(self.server, user=user, texts=self.texts)

    def test_permissions(self, lock: Lock, r: redis.Redis) -> None:
        """A releaser or waiter lacks a permission: no hold without an end, none lost, nothing half
        done."""
        situations = (
            "short",
            "long",
            "readers",
            "take",
            "take flagged",
            "shared",
            "share",
            "share beside",
            "share the third",
            "first waiter",
            "nest",
            "leave shared",
            "hdel",
        )
        for what in [
            "hset",
            "hget",
            "hgetall",
            "hlen",
            "hdel",
            "set",
            "get",
            "publish",
            "pubsub",
            "pexpire",
            "pexpireat",
            "pttl",
            "zadd",
            "zpopmin",
            "zrem",
            "zrange",
            "zscore",
            "zcard",
            "zrank",
            "zrevrank",
            "time",
            "exists",
            "del",
        ]:
            for situation in situations:
                r.flushall()
                theirs = self.as_user(r)
                if situation in ("short", "long", "first waiter", "nest", "hdel"):
                    theirs.take(1)
                if situation in ("short", "long"):
                    lock.acquire(2), lock.acquire(3)
                if situation == "readers":
                    theirs.take(1), lock.acquire(2, "s0"), lock.acquire(3, "s0")
                if situation == "take flagged":
                    lock.release(77, bury=1)
                if situation == "leave shared":
                    theirs.acquire(1, "s0", wait=False), lock.acquire(2, "s0", wait=False)
                if situation in ("share beside", "share the third"):
                    lock.share(1)
                if situation == "share the third":
                    lock.share(3)
                plain = r.hkeys(self.keys.K)
                fence = lock.fence(1)
                r.acl_setuser("u", enabled=True, commands=["-" + what])
                name = f"-{what}, {situation}"
                if situation == "short":
                    answer = theirs.release(1, fence, long=False)
                elif situation in ("long", "readers", "leave shared"):
                    answer = theirs.release(1)
                elif situation in ("take", "take flagged"):
                    answer = theirs.take(1)
                elif situation == "shared":
                    answer = theirs.acquire(1, "s0", wait=False)
                elif situation.startswith("share"):
                    answer = theirs.share(2)
                elif situation == "first waiter":
                    answer = theirs.acquire(2)
                elif situation == "nest":
                    answer = theirs.acquire(2, nests="1", owner="o1", wait=False)
                else:
                    answer = theirs.cancel(5, 1)
                state = lock.state()
                theirs.r.close()
                self.expect(
                    name + ": K has no end",
                    not r.exists(self.keys.K) or r.pttl(self.keys.K) > 0,
                    answer,
                    state,
                )
                held = (isinstance(state[0], dict) and state[0]) or {}
                self.expect(
                    name + ": two forms at once",
                    not ("hf1" in held and any(len(f) == 49 for f in held)),
                    answer,
                    state,
                )
                waits = [m for m in state[3] if m != "~"]
                self.expect(
                    name + ": F is plain",
                    not (waits and len(state[2] or "") == 16 and held),
                    answer,
                    state,
                )
                if situation.startswith("take") or situation in ("shared", "share"):
                    got = isinstance(answer, str) or (isinstance(answer, list) and answer[2] == 1)
                    self.expect(name + ": half", got == bool(held), answer, state)
                    if situation == "take flagged":
                        self.expect(name + ": F is plain", len(state[2]) == 61, answer, state)
                if situation == "share beside" and not isinstance(answer, str):
                    self.expect(name + ": K's end", r.pttl(self.keys.K) <= 30000, answer, state)
                if situation in ("share beside", "share the third"):
                    got = isinstance(answer, str)
                    ids = [name for name in held if name[1:33] == hold(2)]
                    self.expect(name + ": half", got == bool(ids), answer, state)
                    ends = r.zrange(self.keys.S, 0, -1)
                    fields = [name[1:] for name in held if name[0] == "h" and name != "hf1"]
                    # Without these a change cannot be undone, and ends by itself.
                    if what not in ("zrem", "hdel", "del"):
                        self.expect(name + ": K and S", sorted(ends) == sorted(fields), state, ends)
                    self.expect(
                        name + ": the other reader lost it",
                        lock.renew(1)[1] > 0,
                        answer,
                        state,
                    )
                if situation in ("nest", "first waiter") and not isinstance(answer, list):
                    self.expect(
                        name + ": the holder lost it",
                        lock.renew(1)[1] > 0 and (r.hkeys(self.keys.K) == plain or held.get("hf1")),
                        answer,
                        state,
                    )
                if situation in ("short", "long", "readers"):
                    mode = "s0" if situation == "readers" else "x"
                    for n in (2, 3):
                        state_of = lock.acquire(n, mode, score=5)
                        self.expect(
                            name + f": waiter {n}",
                            isinstance(state_of, list) and state_of[2] in (1, 2, 6),
                            state_of,
                        )
                    lock.release(1), lock.acquire(2, mode, score=5), lock.release(2)
                    self.expect(
                        name + ": the last is served",
                        lock.acquire(3, mode, score=5)[2] == 1,
                        lock.state(),
                    )
        r.acl_deluser("u")

    def test_lost_permission(self, lock: Lock, r: redis.Redis) -> None:
        """A permission lost after the acquire is an error, and the hold stands."""
        theirs = self.as_user(r)
        theirs.take(1)
        r.acl_setuser("u", enabled=True, commands=["-pexpireat", "-del"])
        self.expect("renew: refused", theirs.renew(1, lease=60000)[1] == -3)
        self.expect("the hold stands", lock.renew(1, mode=2)[1] > 0)
        fence = self.begun(lock, r)
        r.acl_setuser("u", enabled=True, commands=["+@all", "-hset"])
        answer = theirs.finish(1, fence=fence)
        self.expect("a paid result is refused", isinstance(answer, Exception), answer)
        self.expect("the lock is free", not r.exists(self.keys.K))
        self.expect("it is kept when it comes again", lock.finish(1, fence=fence) == 6)
        for how, kind, note in (("n", "r", ""), ("u", "b", "bytes")):
            fence = self.begun(lock, r)
            answer = theirs.finish(1, how, fence=fence)
            self.expect(f"{how} is refused", isinstance(answer, Exception), answer)
            lock.finish(1, how, fence=fence)
            record = r.hgetall(self.keys.R)
            kept = record["hf1"][32] == kind and record["n"] == note
            self.expect(f"{how} is kept when it comes again", kept, record)
        theirs.r.close()

    # ----------------------------------------------------------------- Memory

    def test_memory(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1), lock.acquire(2), lock.acquire(3, "s0"), lock.acquire(4, "s0")
        r.config_set("maxmemory", 1000)
        try:
            for what in (
                lambda: lock.acquire(5),
                lambda: lock.wait(5),
                lambda: lock.acquire(5, "s0"),
            ):
                answer = what()
                self.expect("a full server refuses to queue", "maxmemory" in str(answer), answer)
            self.expect(
                "a full server: short release",
                lock.short(1) == 1 and lock.holder() == 2,
                lock.state(),
            )
            self.expect(
                "a full server: release",
                lock.release(2) == 1 and r.zcard(self.keys.S) == 2,
                lock.state(),
            )
            self.expect(
                "a full server: renewal", lock.renew(3, 4, lease=60000)[1:] == [60000, 60000]
            )
            self.expect("a full server: claim", lock.claim(3, 70000)[1] == 70000)
            self.expect(
                "a full server: bury", lock.release(3, bury=1) == 1 and lock.release(4) == 1
            )
            for what in (
                lambda: lock.take(6),
                lambda: lock.acquire(6),
                lambda: lock.acquire(6, "s0"),
            ):
                answer = what()
                self.expect(
                    "a full server grants nothing new",
                    "maxmemory" in str(answer) or answer == 0,
                    answer,
                )
            self.expect(
                "nothing is left of it",
                not r.exists(self.keys.K, self.keys.S, self.keys.Q),
                lock.state(),
            )
        finally:
            r.config_set("maxmemory", 0)

    # ------------------------------------------------------ Other libraries

    def test_redisson(self, lock: Lock, r: redis.Redis) -> None:
        def redisson():
            return r.eval(REDISSON, 1, self.keys.K, 30000, "uuid:1")

        lock.take(1)
        self.expect("Redisson waits for taken", (redisson() or 0) > 0)
        lock.acquire(2)
        self.expect("Redisson waits for one", (redisson() or 0) > 0)
        lock.short(1), lock.release(2), lock.acquire(3, "s0", wait=False)
        self.expect("Redisson waits for many", (redisson() or 0) > 0)
        lock.release(3)
        self.expect("Redisson gets it", redisson() is None)
        self.expect("take is refused", lock.take(4) == -1)
        self.expect("state 4", lock.acquire(4)[2] == 4 and lock.acquire(5, "s0")[2] == 4)
        self.expect(
            "not ours to release, renew, leave",
            lock.release(4) == 0
            and lock.renew(4)[1] == -2
            and lock.run("leave", [self.keys.K], hold(4), "0" * 16) == 0,
        )
        self.expect("not ours to break", lock.run("break", self.keys.all, 0, 0) == 0)
        # A dead head of the queue does not stay before a foreign lock.
        r.zadd(self.keys.Q, {self.lock.member(9, hold(0xDEAD)): 1})
        self.expect("the dead head leaves", lock.acquire(4, score=5)[4] == 0)
        r.persist(self.keys.K)
        self.expect("heal", lock.run("heal", [self.keys.K], 20000) == 1 and r.pttl(self.keys.K) > 0)
        self.expect(
            "break foreign",
            lock.run("break", self.keys.all, 0, 1) == 1 and lock.holder() == 4,
            lock.state(),
        )
        r.flushall()
        r.set(self.keys.K, "x")
        self.expect("a string", lock.take(1) == -1 and lock.acquire(1)[2] == 4)

    def test_fields(self, lock: Lock, r: redis.Redis) -> None:
        """Fields that look a little like those of Holdfast."""
        r.hset(self.keys.K, "h" + hold(1), "x")
        answers = [lock.release(1, "", long=False), lock.release(1), lock.renew(1)[1]]
        self.expect(
            "a hash with a field like ours",
            answers == [0, 0, -2] and r.hlen(self.keys.K) == 1,
            answers,
        )
        for value in ("ann", "x" * 80, hold(1) + "3" + "0" * 16 + "x000000030000o1"):
            r.flushall()
            r.hset(self.keys.K, "hf1", value)
            answers = [lock.wait(2), lock.take(2), lock.share(2), lock.short(2), lock.leave(2)]
            answers.append(lock.acquire(2)[2])
            self.expect(f"hf1 of a later format, {value}", answers == [0, -1, 0, 0, 0, 4], answers)
        r.flushall()
        lock.take(1)
        wrong = f"{int(lock.fence(1)) - 1:016d}"
        for begin in (lambda: None, lambda: lock.acquire(2)):
            begin()
            answers = [
                lock.release(1, wrong),
                lock.release(1, wrong, long=False),
                lock.run("renew", [self.keys.K, self.keys.S], hold(1) + wrong, 60000, 0, 2)[1],
                lock.run("leave", [self.keys.K], hold(1), wrong),
            ]
            self.expect("the fence of a hold before", answers == [0, 0, -2, 0], answers)

    def test_renewals_shorten_nothing(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1, lease=60000)
        words = [hold(1) + lock.fence(1), 1000, 0, 0]
        left = lock.run("renew", [self.keys.K], *words)[1]
        self.expect("a shorter renewal", left > 30000 and r.pttl(self.keys.K) > 30000, left)
        r.persist(self.keys.K)
        left = lock.run("renew", [self.keys.K], *words)[1]
        self.expect("a renewal of an endless hold", left == r.pttl(self.keys.K) == -1, left)

    def test_kept_of_another_fence(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1)
        fence = lock.fence(1)
        lock.renew(1, mode=3)
        wrong = f"{int(fence) - 1:016d}"
        answers = [
            lock.release(1, wrong),
            lock.run("renew", [self.keys.K, self.keys.S], hold(1) + wrong, 60000, 0, 2)[1],
            lock.release(1, fence),
        ]
        self.expect("a kept hold has its fence", answers == [0, -2, 1], answers)

    def test_heal_leaves_ours(self, lock: Lock, r: redis.Redis) -> None:
        for begin in (
            lambda: lock.acquire(1, wait=False, lease=0),
            lambda: lock.acquire(2),
            lambda: None,
        ):
            begin()
            self.expect(
                "heal leaves ours alone", lock.run("heal", [self.keys.K, self.keys.S], 20000) == 0
            )

    # ----------------------------------------------------------------- Clocks

    def now(self, r: redis.Redis) -> int:
        seconds, micros = r.time()
        return int(f"{seconds}{micros:06d}")

    def test_floor(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1)
        floor = self.now(r) + 30 * DAY * 1000
        lock.acquire(2, floor=floor)
        self.expect(
            "F's TTL counts from the floor", r.pttl(self.keys.F) > 30 * DAY, r.pttl(self.keys.F)
        )
        lock.acquire(2, score=5)
        self.expect("and is not cut", r.pttl(self.keys.F) > 30 * DAY, r.pttl(self.keys.F))
        self.expect("short release", lock.short(1) == 1)
        self.expect(
            "a fence above the floor",
            int(lock.fence(2)) > floor and int(r.get(self.keys.F)[:16]) > floor,
            lock.state(),
        )
        lock.release(2)
        self.expect(
            "take may not go back",
            lock.take(3) == 0 and r.pttl(self.keys.F) > 30 * DAY,
            lock.state(),
        )
        self.expect("acquire goes on", lock.acquire(3, wait=False)[3] > floor)
        r.set(self.keys.F, "9007199254740991")
        r.delete(self.keys.K)
        self.expect("the last fence", "last fence" in str(lock.acquire(4)) and lock.take(4) == 0)

    def test_take_floor(self, lock: Lock, r: redis.Redis) -> None:
        floor = self.now(r) + 3600 * 10**6
        answer = lock.take(1, floor=floor)
        self.expect("take goes below no floor", answer == 0, answer)
        self.expect("and writes nothing", not r.exists(self.keys.K, self.keys.F), lock.state())
        answer = lock.take(1, floor=self.now(r) - 1000)
        self.expect("take above its floor", isinstance(answer, str) and len(answer) == 16, answer)
        answer = lock.take(2, floor=floor)
        self.expect("take: K is there", answer == -1 == lock.take(1), answer)

    def test_stored_floor(self, lock: Lock, r: redis.Redis) -> None:
        """The answer "held" means that the floor is stored: it confirms a fence for a majority."""
        lock.take(1)
        floor = self.now(r) + 3600 * 10**6
        before = r.get(self.keys.F)
        r.config_set("min-replicas-to-write", 1)
        try:
            answer = lock.acquire(1, wait=False, floor=floor)
            self.expect(
                "a floor that is not stored is an error", "NOREPLICAS" in str(answer), answer
            )
        finally:
            r.config_set("min-replicas-to-write", 0)
        self.expect("and the last fence is as before", r.get(self.keys.F) == before, lock.state())
        r.config_set("maxmemory", 1000)
        try:
            answer = lock.acquire(1, wait=False, floor=floor)
            self.expect("a full server stores the floor of who holds", answer[2] == 1, answer)
            answer = lock.acquire(2, floor=floor + 1)
            self.expect("and of no other", "maxmemory" in str(answer), answer)
        finally:
            r.config_set("maxmemory", 0)
        self.expect("it is stored", int(r.get(self.keys.F)[:16]) == floor, lock.state())
        self.expect("the hold keeps its fence", lock.fence(1) == before[:16], lock.state())
        lock.short(1), r.delete(self.keys.F)
        lock.take(3), lock.acquire(4)
        self.expect("before", r.hget(self.keys.K, "hf1")[32] == "1", lock.state())
        lock.acquire(3, wait=False, floor=floor + 5)
        self.expect("a short release is told of it", r.hget(self.keys.K, "hf1")[32] == "2")
        self.expect("short release", lock.short(3) == 1)
        self.expect("the next fence is above it", int(lock.fence(4)) > floor + 5, lock.state())
        r.flushall()
        lock.take(5), lock.acquire(6)
        lock.acquire(7, floor=floor)
        self.expect("a waiter's floor is told, too", r.hget(self.keys.K, "hf1")[32] == "2")
        self.expect("short release, again", lock.short(5) == 1)
        self.expect("the next is above that", int(lock.fence(6)) > floor, lock.state())
        r.flushall()
        lock.take(4)
        theirs = self.as_user(r)
        r.acl_setuser("u", enabled=True, commands=["-set"])
        answer = theirs.acquire(4, wait=False, floor=floor + 3600 * 10**6)
        told = re.search("can't run|no permissions", str(answer))
        self.expect("a floor that may not be stored", told is not None, answer)
        theirs.r.close()

    def test_lost_fence(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1), lock.acquire(2)
        r.delete(self.keys.F)
        lock.acquire(2, score=5)
        self.expect("F is flagged again", len(r.get(self.keys.F) or "") == 61, lock.state())
        lock.short(1)
        r.delete(self.keys.F, self.keys.K)
        lock.take(7)
        answer = lock.acquire(3)
        self.expect(
            "queued behind those of before", isinstance(answer, list) and answer[2] == 2, answer
        )
        lock.acquire(8, score=5)
        self.expect(
            "K is not taken while there is a waiter", lock.r.hget(self.keys.K, "hf1"), lock.state()
        )

    def test_lost_holds(self, lock: Lock, r: redis.Redis) -> None:
        lock.acquire(1, "s0", wait=False), lock.acquire(2, "s0", wait=False)
        r.delete(self.keys.S)
        self.expect("S lost: busy", lock.acquire(3)[2] == 4 and lock.take(4) == -1)
        self.expect(
            "S lost: not held",
            lock.renew(1)[1] == -2 and lock.release(1) == 0 and lock.short(2) == 0,
        )
        self.expect("S lost: foreign", lock.inspect()[0] == 3)
        r.persist(self.keys.K)
        self.expect("S lost: heal", lock.run("heal", [self.keys.K, self.keys.S], 10) == 1)
        self.clock.pass_ms(30)
        self.expect("S lost: until K ends", lock.acquire(3, score=5)[2] == 1)

    # ---------------------------------------------------------------- Numbers

    def test_numbers(self, lock: Lock, r: redis.Redis) -> None:
        for lease in (0, -1, 9, "1.5", "", "x", "1e99", "nan", "inf", 10**18):
            answer = lock.take(1, lease)
            self.expect(
                f"take, lease {lease}", answer == 0 or isinstance(answer, Exception), answer
            )
            self.expect(
                f"take, lease {lease}: nothing is left", not r.exists(self.keys.K), lock.state()
            )
        for lease in (-1, 9, "1.5", "", "x", "1e99", "nan", "inf", 10**18):
            for mode in ("x", "s0"):
                answer = lock.acquire(1, mode, lease=lease, wait=False)
                self.expect(f"lease {lease}", "lease out of bounds" in str(answer), answer)
        for mode in ("s", "s-1", "s1.5", "s99999999999", "y", "", "xx"):
            answer = lock.acquire(1, mode, wait=False)
            self.expect(f"mode {mode!r}", "mode out of bounds" in str(answer), answer)
        for floor in (-1, "x", "", "1.5", 2**53 - 1, "0x12345678901234"):
            self.expect(
                f"floor {floor!r}", "fence floor" in str(lock.acquire(1, floor=floor, wait=False))
            )
        for score in (-3600000001, "x", 2**53):
            self.expect(f"score {score}", "score" in str(lock.acquire(1, score=score)))
        good = lock.member(1)
        for text in (
            good[:65] + "12345678901" + good[75:],
            good[:88],
            "x",
            good.replace("p", "q", 1),
            good[:65] + "abcdefghij" + good[75:],
        ):
            for begin in (lambda: None, lambda: lock.take(9)):
                r.flushall()
                begin()
                answer = lock.acquire(1, text=text)
                self.expect(
                    f"member {text}",
                    isinstance(answer, Exception) and not r.exists(self.keys.Q),
                    answer,
                    lock.state(),
                )
        r.flushall()
        for begin in (lambda: None, lambda: lock.take(9)):
            begin()
            self.expect(
                "an empty owner",
                isinstance(
                    lock.run(
                        "acquire", [*self.keys.all, "d"], 0, hold(1), "", 30000, "x", "0", "", 0
                    ),
                    Exception,
                ),
            )
        # A member that no script can read does not block the queue.
        r.flushall()
        lock.take(1), lock.acquire(2)
        r.zadd(self.keys.Q, {good[:65] + "abcdefghij" + good[75:]: 1})
        self.expect("an unreadable head", lock.short(1) == 1 and lock.holder() == 2, lock.state())

    def test_results(self, lock: Lock, r: redis.Redis) -> None:
        record = self.keys.R
        for ms, text, answer in (
            (9999, "x", 5),
            (10000, "x" * (2**24 + 1), 5),
            (10000, "x" * 2**20, 1),
            ("x", "x", 5),
        ):
            r.flushall()
            lock.acquire(1, "o", wait=False)
            self.expect(
                "a result's bounds",
                lock.finish(1, text=text, ms=ms) == answer and r.exists(record) == (answer == 1),
            )
        r.flushall()
        lock.acquire(1, "s0", wait=False)
        self.expect(
            "no result of a shared hold", lock.finish(1) == 5 and not r.exists(record, self.keys.K)
        )
        lock.acquire(1, "o", wait=False, lease=20)
        fence = lock.fence(1)
        self.clock.pass_ms(40)
        self.expect(
            "a late holder leaves no result",
            lock.finish(1, fence=fence) == 0 and not r.exists(record),
        )
        lock.take(1)
        for n in range(50):
            lock.acquire(100 + n, "o")
        lock.finish(1)
        words = []
        for n in range(50):
            words += [
                hold(100 + n),
                f"o{100 + n}",
                30000,
                "o",
                "0",
                lock.member(100 + n, mode="o"),
                5,
            ]
        answer = lock.run(
            "acquire",
            [*self.keys.all, *(self.keys.dead(hold(100 + n)) for n in range(50))],
            0,
            *words,
        )
        self.expect(
            "a result is answered once",
            answer[2] == 5 and answer[3][2] == "bytes" and set(answer[6::3]) == {""},
            answer,
        )
        lock.take(2)
        for n in range(1200):
            lock.acquire(1000 + n, "o", client=CLIENTS[n % 2])
        r.delete(record)
        lock.acquire(9000, "o"), lock.acquire(9001)
        more = lock.finish(2)
        for _ in range(20):
            if more != 2:
                break
            more = 2 if lock.kick()[1] == -2 else 1
        self.expect(
            "a thousand are told, and one who did not ask is granted",
            lock.holder() == 9001,
            lock.state()[:3],
        )

    def begun(self, lock: Lock, r: redis.Redis, lease: int = 30000, terms: str = TERMS) -> str:
        """Begin a call of 1 on an empty server; return its fence."""
        r.flushall()
        lock.acquire(1, "o", wait=False, lease=lease)
        fence = lock.fence(1)
        self.expect("begin", lock.begin(1, terms=terms)[2] == 1)
        return fence

    def told(self, lock: Lock, n: int = 2):
        """Return what another caller is told: the kind and the bytes of the record, or a state."""
        answer = lock.acquire(n, "o", wait=False)
        if answer[2] == 1:
            lock.release(n)
        return (answer[3][0][32] + answer[3][2]) if answer[2] == 5 else answer[2]

    def test_begun(self, lock: Lock, r: redis.Redis) -> None:
        record = self.keys.R
        fence = self.begun(lock, r)
        self.expect("in progress: busy", self.told(lock) == 0)
        self.expect("a mark without an end", r.pttl(record) == -1)
        self.expect("a copy of begin", lock.begin(1)[2] == 1)
        self.expect("inspect: in progress", lock.inspect()[8][3] == 1)
        lock.release(1)
        self.expect("a plain release leaves it unknown", self.told(lock) == "b")
        self.expect("inspect: unknown", lock.inspect()[8][3] == 0)
        self.expect("begin without a hold", lock.begin(1, fence=fence)[2] == 0)
        self.expect("a late finish is kept", lock.finish(1, fence=fence) == 6)
        self.expect("the late result", self.told(lock) == "dbytes")
        self.expect("a copy of the late finish", lock.finish(1, text="y", fence=fence) == 6)
        self.expect("the first copy counts", self.told(lock) == "dbytes")
        # A renewal, another lease and a handoff do not change it.
        fence = self.begun(lock, r, lease=5000)
        lock.renew(1, lease=60000)
        self.expect(
            "a renewal keeps the mark", r.hget(record, "hf1")[32] == "b" and r.pttl(record) == -1
        )
        lock.renew(1, lease=20, mode=1)
        self.clock.pass_ms(40)
        self.expect("its lease is over: unknown", self.told(lock) == "b")
        self.expect("a plain acquire is granted", lock.acquire(3, wait=False)[2] == 1)
        self.expect("still unknown under it", self.told(lock) == "b")
        self.expect("a finish under it", lock.finish(1, fence=fence) == 6 and lock.fence(3))
        self.expect("and 3 still has it", lock.renew(3)[1] > 0)
        # A caller waits in the queue, and is told.
        fence = self.begun(lock, r)
        self.expect("it waits", lock.acquire(2, "o")[2] == 2)
        self.expect("why", lock.finish(1, "u", "ReadTimeout", 0) == 1)
        self.expect("the waiter left", not [m for m in r.zrange(self.keys.Q, 0, -1) if m != "~"])
        self.expect("the note says why", lock.acquire(2, "o")[3][1] == "ReadTimeout")
        # Not made: the next caller gets the turn; until then a late result still counts.
        fence = self.begun(lock, r)
        lock.acquire(2, "o")
        self.expect("withdrawn", lock.finish(1, "n", "", 0) == 1 and lock.holder() == 2)
        self.expect("begin after it", lock.begin(1, fence=fence)[2] == 0)
        self.expect("late, before the next", lock.finish(1, fence=fence) == 6)
        fence = self.begun(lock, r)
        lock.acquire(2, "o"), lock.finish(1, "n", "", 0)
        self.expect("the next begins", lock.begin(2)[2] == 1)
        self.expect("late, after the next", lock.finish(1, fence=fence) == 7)
        self.expect("the next is not disturbed", lock.finish(2, text="z") == 1)
        self.expect("its result", self.told(lock, 5) == "dz")
        self.expect("an error", self.begun(lock, r) and lock.finish(1, "e", "no") == 1)
        self.expect("a kept error", self.told(lock) == "eno")
        # Bounds, and another caller's record.
        fence = self.begun(lock, r)
        for words in ((5000, ""), ("x", ""), (20000, "n" * 1025)):
            answer = lock.begin(1, ms=words[0], note=words[1])
            self.expect(f"begin {words[0]}", "out of bounds" in str(answer), answer)
        begun = lock.begin(1, ms=20000)[2] == 1
        self.expect("no end while it runs", begun and r.pttl(record) == -1 and self.told(lock) == 0)
        self.expect("inspect: the end to come", lock.inspect()[4] == 20000)
        lock.finish(1, "u", "why", 0)
        self.expect("said to be unknown", 10000 < r.pttl(record) <= 20000)
        fence = self.begun(lock, r)
        lock.begin(1, ms=20000)
        r.delete(self.keys.K)
        self.expect("not told yet", r.pttl(record) == -1)
        self.expect("told", self.told(lock) == "b20000" and 10000 < r.pttl(record) <= 20000)
        r.pexpire(record, 15000)
        self.expect("told again", self.told(lock) == "b20000" and r.pttl(record) <= 15000)
        lock.acquire(4, "x", wait=False)
        answer = lock.begin(4)
        self.expect("begin over another record", answer[2] == 5 and answer[3][0][32] == "b", answer)
        self.expect("a finish over another record", lock.finish(4) == 7)
        self.expect("it is left alone", r.hget(record, "hf1")[:32] == hold(1))
        # Other arguments.
        for first, second, state in (("a", "b", 5), ("a", "-", 1), ("-", "b", 1), ("a", "a", 1)):
            r.flushall()
            self.begun(lock, r, terms="m" + first * 64)
            lock.finish(1, "n", "", 0), lock.acquire(2, "o", wait=False)
            answer = lock.begin(2, terms="m" + second * 64)
            self.expect(f"retry of {first} by {second}", answer[2] == state, answer)
        r.flushall()
        r.set(record, "0123456789012345old", px=60000)
        self.expect(
            "an older client's result", "WRONGTYPE" in str(lock.acquire(1, "o", wait=False))
        )
        self.expect("a plain acquire", lock.acquire(1, wait=False)[2] == 1 and lock.release(1) == 1)

    def test_settled(self, lock: Lock, r: redis.Redis) -> None:
        record = self.keys.R
        fence = self.begun(lock, r)
        self.expect("in progress", lock.settle("d", fence) == 3)
        self.expect("another's fence", lock.settle("d", f"{int(fence) + 1:016d}", force=1) == 0)
        lock.acquire(2, "o")
        self.expect("forced", lock.settle("d", fence, force=1) == 1 and not r.exists(self.keys.K))
        self.expect("the waiter is told", not [m for m in r.zrange(self.keys.Q, 0, -1) if m != "~"])
        again = self.begun(lock, r)
        lock.acquire(3), lock.acquire(4), lock.acquire(2, "o")
        lock.settle("d", again, force=1)
        waits = [m[:32] for m in r.zrange(self.keys.Q, 0, -1) if m != "~"]
        self.expect("behind those that want the lock too", waits == [hold(4)], waits)
        fence = self.begun(lock, r)
        lock.settle("d", fence, who=77, force=1)
        self.expect("a copy", lock.settle("d", fence, who=77) == 1)
        self.expect(
            "by hand", self.told(lock) == "dhand" and r.hget(record, "hf1")[138:] == "settler"
        )
        self.expect("its caller is late", lock.finish(1, fence=fence) == 7)
        self.expect("settled already", lock.settle("e", fence, who=78) == 4)
        self.expect("retry of it", lock.settle("r", fence, who=81) == 4)
        self.expect("replaced", lock.settle("e", fence, who=82, text="no", force=1) == 1)
        self.expect("a refused copy", lock.settle("e", fence, who=78, force=1) == 4)
        copy = lock.settle("d", fence, who=77, force=1)
        self.expect("by that", copy == 1 and self.told(lock) == "eno")
        self.expect("forgotten", lock.settle("f", fence, who=79) == 1 and not r.exists(record))
        self.expect("its copy", lock.settle("f", fence, who=79) == 1)
        self.expect("another's", lock.settle("f", fence) == 0)
        r.set(self.keys.dead(hold(80)), "1")
        self.expect("given up", "given up" in str(lock.settle("f", fence, who=80)))
        self.expect("late, after it", lock.finish(1, fence=fence) == 0 and not r.exists(record))
        fence = self.begun(lock, r)
        lock.release(1)
        self.expect("retry", lock.settle("r", fence) == 1 and lock.settle("r", fence, who=5) == 1)
        self.expect("retry does not last", r.pttl(record) > 86000000)
        self.expect("the turn", self.told(lock) == 1)
        self.expect("late, after a retry", lock.finish(1, fence=fence) == 6)
        for verb, ms, note, text in (
            ("x", 20000, "", ""),
            ("d", 9999, "", ""),
            ("d", "x", "", ""),
            ("d", 20000, "n" * 1025, ""),
        ):
            answer = lock.settle(verb, fence, ms=ms, note=note, text=text, force=1)
            self.expect(f"settle {verb} {ms}", "out of bounds" in str(answer), answer)
        self.expect("nothing was done", self.told(lock) == "dbytes")

    def test_settled_without_a_permission(self, lock: Lock, r: redis.Redis) -> None:
        """If the record cannot be written, the lock of the ended call is handed on."""
        theirs = self.as_user(r)
        fence = self.begun(lock, r)
        lock.acquire(2)
        r.acl_setuser("u", enabled=True, commands=["-pexpire"])
        answer = theirs.settle("d", fence, force=1)
        self.expect("refused", isinstance(answer, Exception), answer)
        self.expect("the waiter has it", lock.holder() == 2, lock.state())
        self.expect("settled again", lock.settle("d", fence) == 1)
        self.expect("by that", r.hget(self.keys.R, "hf1")[32] == "d")
        theirs.r.close()

    def test_full_record(self, lock: Lock, r: redis.Redis) -> None:
        """A full server begins no call, and keeps the result of a call that has begun."""
        r.flushall()
        lock.acquire(1, "o", wait=False)
        r.config_set("maxmemory", 1000)
        try:
            answer = lock.begin(1)
            self.expect("a full server begins nothing", "maxmemory" in str(answer), answer)
            self.expect("nothing is left of it", not r.exists(self.keys.R))
            r.config_set("maxmemory", 0)
            lock.begin(1)
            fence = lock.fence(1)
            r.config_set("maxmemory", 1000)
            self.expect("a full server keeps the result", lock.finish(1) == 1)
            r.config_set("maxmemory", 0)
            fence = self.begun(lock, r)
            r.delete(self.keys.K)
            r.config_set("maxmemory", 1000)
            self.expect("also without a hold", lock.finish(1, fence=fence) == 6)
        finally:
            r.config_set("maxmemory", 0)

    # --------------------------------------------------------------- Replicas

    def test_readonly(self, lock: Lock, r: redis.Redis) -> None:
        def all_refuse(name: str, *questions) -> None:
            r.replicaof("127.0.0.1", "1")
            try:
                for n, question in enumerate(questions):
                    answer = question()
                    self.expect(f"READONLY, {name} {n}", "read only replica" in str(answer), answer)
            finally:
                r.replicaof("NO", "ONE")
            r.flushall()

        def taken():
            answer = lock.take(7)
            # Before 7.0 a replica has K until its master reports the end.
            return "read only replica" if answer == -1 and self.old else answer

        lock.acquire(1, lease=50), lock.acquire(2)
        self.clock.pass_ms(70)
        all_refuse(
            "free",
            lambda: lock.acquire(2, score=5),
            taken,
            lambda: lock.acquire(8, wait=False),
            lambda: lock.cancel(2),
            lambda: lock.short(1),
            lambda: lock.release(1),
            lambda: lock.claim(1),
            lambda: lock.renew(1),
            lambda: lock.kick(),
            lambda: lock.acquire(8, "s0"),
        )
        lock.take(1), lock.acquire(2)
        all_refuse(
            "one",
            lambda: lock.short(1),
            lambda: lock.release(1),
            lambda: lock.renew(1),
            lambda: lock.renew(1, lease=100),
            lambda: lock.acquire(2, score=5),
            lambda: lock.acquire(9, wait=False),
            lambda: lock.claim(1),
            lambda: lock.acquire(3, nests="1", owner="o1"),
            lambda: lock.wait(5),
        )
        lock.acquire(1, "s0"), lock.acquire(2, "s0")
        all_refuse(
            "many",
            lambda: lock.short(2),
            lambda: lock.release(1),
            lambda: lock.renew(1, 2),
            lambda: lock.claim(1, 100),
            lambda: lock.acquire(3, "s0"),
            lambda: lock.acquire(3),
            lambda: lock.acquire(3, wait=False),
        )

    # ------------------------------------------------------------ What leaves

    def test_dead_members_leave(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1), lock.acquire(2)
        for n in range(300):
            r.zadd(self.keys.Q, {lock.member(1000 + n, hold(5000 + n)): 100 + n})
        for _ in range(300):
            lock.acquire(2, score=5)
        self.expect(
            "the dead leave the queue of a held lock",
            r.zcard(self.keys.Q) < 20,
            r.zcard(self.keys.Q),
        )
        r.flushall()
        lock.take(1), lock.acquire(2)
        r.zadd(self.keys.Q, {lock.member(5, hold(0xDEAD)): 1})
        self.expect("a dead head is passed", lock.short(1) == 1 and lock.holder() == 2)
        r.flushall()
        lock.take(1), lock.acquire(2)
        r.zadd(self.keys.Q, {lock.member(5, timeout=1): 1})
        self.expect("who gave up is passed", lock.short(1) == 1 and lock.holder() == 2)

    def test_ended_holds_leave(self, lock: Lock, r: redis.Redis) -> None:
        for mode in ("x", "s0"):
            r.flushall()
            lock.take(1)
            for n in range(100):
                lock.acquire(50 + n, mode, wait=False, lease=10, nests="1", owner="o1")
            self.clock.pass_ms(30)
            lock.acquire(9, mode, wait=False, nests="1", owner="o1")
            lock.release(9)
            self.expect(
                f"ended nested holds leave, {mode}",
                r.hlen(self.keys.K) == 2 == r.zcard(self.keys.S) + 1,
                r.hlen(self.keys.K),
            )
            self.expect("x is right", int(r.hget(self.keys.K, "hf1")[16:32]) == 1)
        r.flushall()
        lock.take(1, 30), lock.acquire(2, "s0", wait=False, nests="1", owner="o1")
        self.clock.pass_ms(50)
        answer = lock.acquire(3, wait=False, nests="1", owner="o1")
        self.expect("nothing nests in an ended hold", answer[2] == 0, answer, lock.state())
        r.flushall()
        lock.acquire(1, "s1", wait=False, lease=20), lock.acquire(2, "s0", wait=False)
        self.clock.pass_ms(40)
        self.expect(
            "an ended permit is free",
            lock.acquire(3, "s2", wait=False)[2] == 1 and r.zcard(self.keys.S) == 2,
        )

    def test_ghosts(self, lock: Lock, r: redis.Redis) -> None:
        for question in (
            lambda: lock.cancel(5, client=CLIENTS[2]),
            lambda: lock.kick(),
            lambda: lock.release(77),
        ):
            r.flushall()
            lock.take(1)
            (
                lock.acquire(2, lease=30),
                lock.acquire(3),
                lock.acquire(4, client=CLIENTS[1]),
                lock.acquire(5, client=CLIENTS[2]),
            )
            lock.short(1)
            self.clock.pass_ms(50)
            question()
            self.expect("a ghost's next waiter is passed", lock.holder() == 4, lock.state())
        r.flushall()
        (
            lock.acquire(1, "s1", wait=False),
            lock.acquire(2, "s1", lease=30),
            lock.acquire(3, "s1"),
            lock.acquire(4, "s2", client=CLIENTS[1]),
        )
        lock.acquire(7, "s0", wait=False, nests="1" + hold(1), owner="o1")
        lock.release(1), lock.release(7)
        self.clock.pass_ms(50)
        lock.kick()
        self.expect(
            "a shared ghost's too",
            [r.hget(self.keys.K, "h" + hold(n)) is not None for n in (3, 4)] == [False, True],
            lock.state(),
        )

    def test_limits(self, lock: Lock, r: redis.Redis) -> None:
        """A limit stays, whatever requests by another number are sent, and ends no hold."""
        lock.share(1)
        self.expect("no limit before", lock.limit(2) == [0, 0])
        self.expect("share: ask acquire, and the next times", lock.share(2) == -2, lock.state())
        told = lock.acquire(2, "s3")
        self.expect("another number is told the limit", told[2:] == [10, 2, 0], told)
        lock.release(1)
        for request in (lock.take, lock.share):
            request(3)
            self.expect(
                "nothing of it stays", r.exists(self.keys.K, self.keys.S) == 0, lock.state()
            )
        self.expect("share of a free one", lock.share(3) == -2, lock.state())
        self.expect("take of a free one", lock.take(3) == 0, lock.state())
        self.expect("an exclusive one needs no number", lock.acquire(3)[2] == 1, lock.state())
        self.expect("a wait", lock.wait(4) == 0, lock.state())
        lock.acquire(4), lock.wait(5)
        lock.short(3)
        self.expect(
            "the limit stays", r.hget(self.keys.F, "l") == f"{2:010d}{0:012d}", lock.state()
        )
        self.expect("without an end", r.pttl(self.keys.F) == -1)
        for wrong in (("x",), (-1,), (1, 9), (0, 100), (10**10,), (1.5,)):
            answer = lock.limit(*wrong)
            self.expect(f"a limit of {wrong}", "out of bounds" in str(answer), answer)
        self.expect("another limit", lock.limit(3, 1000, n=50) == [2, 0])
        self.expect("no limit", lock.limit(0) == [3, 1000])
        r.pexpire(self.keys.dead(hold(50)), 1000)
        self.expect("a copy of the other is answered alike", lock.limit(3, 1000, n=50) == [2, 0])
        self.expect("and writes what to wait for", r.pttl(self.keys.dead(hold(50))) > 1000)
        self.expect("and stores nothing", lock.limit(4) == [0, 0])
        lock.cancel(51, bury=1)
        told = lock.limit(5, n=51)
        self.expect("a copy that was given up is refused", "given up" in str(told), told)
        self.expect("and stores nothing", lock.limit(0) == [4, 0])
        fence = r.get(self.keys.F) or ""
        self.expect("the fence stays", fence[:16] >= lock.fence(4), fence)
        r.flushall()
        theirs = self.as_user(r)
        r.acl_setuser("u", enabled=True, commands=["-hset"])
        told = theirs.limit(5, n=60)
        self.expect("a limit that is refused", isinstance(told, redis.RedisError), told)
        self.expect("may be asked for again", lock.limit(5, n=60) == [0, 0] == lock.limit(5, n=60))
        self.expect("and is stored", lock.limit(0) == [5, 0], lock.state())
        theirs.r.close()
        r.flushall()

    def test_first_of_readers(self, lock: Lock, r: redis.Redis) -> None:
        """A hold that is stored in S because another joins keeps its end, even if that of the other
        is earlier."""
        lock.share(1, lease=30000)
        lock.acquire(2, "s0", lease=5000, wait=False)
        ends = r.pttl(self.keys.S), r.pttl(self.keys.K)
        self.expect("S and K end with the first", min(ends) > 25000, lock.state())
        r.flushall()

    def test_who_waited_too(self, lock: Lock, r: redis.Redis) -> None:
        """A cancel names no waiter that it lets in, unless the lock was free."""
        lock.share(1), lock.acquire(2), lock.acquire(3, "s0")
        answer = lock.cancel(2)
        self.expect("the holder", answer[1] > 3000 and answer[5] == "o1", answer, lock.state())
        self.expect("and another reader", r.zcard(self.keys.S) == 2, lock.state())
        r.flushall()
        lock.acquire(1, lease=50), lock.acquire(2), lock.acquire(3)
        self.clock.pass_ms(70)
        answer = lock.cancel(2)
        self.expect("the next in line", answer[5] == "o3", answer, lock.state())
        r.flushall()

    def test_dead_id_behind_one(self, lock: Lock, r: redis.Redis) -> None:
        """A short release and a wait learn of a dead id, as they do of a fence."""
        lock.take(1), lock.acquire(2)
        self.expect("before", r.hget(self.keys.K, "hf1")[32] == "1", lock.state())
        lock.cancel(9, bury=1)
        self.expect("K says so", r.hget(self.keys.K, "hf1")[32] == "2", lock.state())
        r.flushall()

    def test_weights(self, lock: Lock, r: redis.Redis) -> None:
        """A weight ends with its hold, applies to nested holds, and is stored in the member."""

        def head() -> str:
            text = r.hget(self.keys.K, "hf1") or " " * 62
            return text[32] + text[49:62]

        lock.acquire(2, "s5", wait=False), lock.acquire(1, "w5:3", wait=False, lease=30)
        self.expect("the sum", head() == "ws" + "2".zfill(12), lock.state())
        self.clock.pass_ms(50)
        lock.kick()
        self.expect("the sum without what has ended", head() == "ns" + "0" * 12, lock.state())
        answer = lock.acquire(3, "w5:4", wait=False)
        self.expect("what has ended leaves room", answer[2] == 1, answer)
        r.flushall()
        lock.acquire(2, "w9:2", wait=False), lock.acquire(1, "w9:3", wait=False, lease=30)
        self.clock.pass_ms(50)
        lock.kick()
        self.expect("one of two heavy ones has ended", head() == "ws" + "1".zfill(12), lock.state())
        for form in ("taken", "many"):
            r.flushall()
            lock.take(1)
            if form == "many":
                lock.acquire(2, wait=False, nests="1", owner="o1")
            lock.acquire(3, "w5:3", wait=False, nests="1", owner="o1")
            field = r.hget(self.keys.K, "h" + hold(3)) or ""
            self.expect(f"a heavy hold nests in {form}", field[:1] == "w", lock.state())
            self.expect("and is in the sum", head() == "wx" + "2".zfill(12), lock.state())
        r.flushall()
        lock.take(1)
        text = lock.member(2, mode="w5:2")
        answer = lock.acquire(2, "w5:3", text=text)
        self.expect("a member of another weight", "member out of bounds" in str(answer), answer)
        for mode in ("w5:1", "w5:6", "w5:0"):
            answer = lock.acquire(2, mode, wait=False)
            self.expect(f"{mode} is refused", "weight out of bounds" in str(answer), answer)

    def test_head_start(self, lock: Lock, r: redis.Redis) -> None:
        """A head start passes only waiters that arrived within it, and keeps the order of a
        request."""
        keys, second, hour = self.keys, 1_000_000, 3_600_000_000

        def order() -> list[int]:
            return [int(m[1:32], 16) for m in r.zrange(keys.Q, 0, -1) if m != "~"]

        def place(n: int, mode: str = "x") -> float:
            return r.zscore(keys.Q, lock.member(n, mode=mode))

        lock.take(1)
        answer = lock.acquire(2, score=-5 * second)
        self.expect("the first waiter", answer[2:5] == [2, answer[0] - 5 * second, 0], answer)
        self.expect("its copy", lock.acquire(2, score=-5 * second)[2:4] == answer[2:4])
        self.expect("wait", lock.wait(3) != 0)
        passed = lock.acquire(4, "s0", score=-5 * second)
        self.expect("it passes one, not two", order() == [2, 4, 3], passed)
        self.expect("an hour is the most", lock.acquire(5, score=-hour)[2] == 2, order())
        self.expect("of all", order()[0] == 5, order())

        # If the lock is free but the queue is not empty, no waiter that arrived earlier is served
        # first.
        r.delete(keys.K)
        self.expect("it is served", lock.acquire(6, score=-hour)[2:3] == [2], lock.state())
        lock.release(5)
        r.flushall(), lock.take(1), lock.acquire(2), r.delete(keys.K)
        answer = lock.acquire(3, score=-second)
        self.expect("before who waited", answer[2] == 1 and order() == [2], answer)
        r.flushall()
        self.expect("free, and no waiter", lock.acquire(2, score=-second)[2] == 1)
        self.expect("it did not queue", not r.exists(keys.Q), lock.state())

        # The clock has stepped back behind the queue's scores.
        r.flushall(), lock.take(1), lock.acquire(2)
        far = place(2) + hour
        r.zadd(keys.Q, {lock.member(2): far})
        lock.acquire(3, score=-5 * second)
        self.expect("behind the last", order() == [2, 3] and place(3) == far + 1, order())

        # Several waiters of one request, with and without a head start.
        r.flushall(), lock.take(1)
        words = []
        for n, score in ((2, 0), (3, -second), (4, -second), (5, 0), (6, -2 * second)):
            words += [hold(n), f"o{n}", 30000, "x", "0", lock.member(n), score]
        answer = lock.run(
            "acquire", [*keys.all, *(keys.dead(hold(n)) for n in range(2, 7))], 0, *words
        )
        self.expect("in the order of the request", order() == [6, 3, 4, 2, 5], order())
        self.expect("none was there before", set(answer[2::3]) == {2}, answer)

        # An acquire that nests needs no place.
        r.flushall(), lock.take(1), lock.acquire(2)
        answer = lock.acquire(3, score=-second, nests="1", owner="o1")
        self.expect("it nests", answer[2] == 1 and order() == [2], answer)

    def test_wait_again(self, lock: Lock, r: redis.Redis) -> None:
        """A copy of a wait does not change the place."""
        lock.take(1), lock.acquire(2)
        first, place = lock.wait(3), r.zscore(self.keys.Q, lock.member(3))
        self.expect("wait", isinstance(first, str) and len(first) == 46, first)
        again = lock.wait(3)
        after = r.zscore(self.keys.Q, lock.member(3))
        self.expect("a copy of wait", again == 0 and place == after, again)
        self.expect("wait of the owner", lock.wait(1) == 0)

    def test_given_back(self, lock: Lock, r: redis.Redis) -> None:
        """A pushed grant that is given back unclaimed leaves no mark."""
        lock.take(1), lock.acquire(2), lock.short(1), lock.release(2)
        self.expect("no mark is left", len(r.get(self.keys.F) or "") == 16, lock.state())
        lock.take(1), lock.acquire(2), lock.acquire(3, mode="s0"), lock.acquire(4, mode="s0")
        lock.short(1), lock.release(2), lock.release(4)
        self.expect("nor the last", r.get(self.keys.F)[16:48] in ("", NOBODY), lock.state())

    def test_queue_lives(self, lock: Lock, r: redis.Redis) -> None:
        """The queue's TTL is renewed under steady contention, by wait and the short release."""
        lock.take(1), lock.acquire(2)
        n = 2
        r.pexpire(self.keys.Q, 5000)
        for _ in range(220):
            lock.short(n - 1)
            if lock.wait(n + 1) == 0:
                lock.acquire(n + 1)
            n += 1
            self.clock.pass_ms(10)
        self.expect("the queue's TTL is renewed", r.pttl(self.keys.Q) > 20000, r.pttl(self.keys.Q))
        self.expect("F's too", r.pttl(self.keys.F) > DAY - 10000)
        r.delete(self.keys.Q)
        self.expect(
            "a lost queue begins with an end",
            lock.wait(99) != 0 and 0 < r.pttl(self.keys.Q) <= 30000,
        )

    def new_second(self, r: redis.Redis) -> None:
        """Wait for the next second of the server's clock."""
        now = r.time()[0]
        while r.time()[0] == now:
            self.clock.pass_ms(10)

    def test_questions(self, lock: Lock, r: redis.Redis) -> None:
        """Waiters ask again by the short way."""
        queue, fence = self.keys.Q, self.keys.F
        lock.take(1, 20000), lock.acquire(2), lock.wait(3), lock.acquire(4, "s0")
        places = [int(score) for _, score in r.zrange(queue, 0, -2, withscores=True)]
        self.new_second(r)
        r.pexpire(queue, 5000), r.pexpire(fence, 5000)
        for n, mode in ((2, "x"), (3, "x"), (4, "s0")):
            _, again, *told = lock.acquire(n, mode, score=places[n - 2], nests="1")
            self.expect("still waits", told == [2, places[n - 2], n - 2], n, told)
            self.expect("and asks again at the end", 15000 < again <= 20000, again)
        self.expect("the queue lives", r.pttl(queue) > 20000, r.pttl(queue))
        self.expect("and F", r.pttl(fence) > DAY - 10000, r.pttl(fence))
        self.expect("a copy", lock.acquire(3)[2:] == [2, places[1], 1])
        self.expect("who holds", lock.acquire(1)[2] == 1 and r.zcard(queue) == 4, lock.state())
        text = lock.member(3)
        wrong = lock.acquire(3, "s3", score=places[1], text=text)
        self.expect("another mode", isinstance(wrong, redis.exceptions.ResponseError), wrong)
        for score in ("-3600000001", "9007199254740991"):
            wrong = lock.acquire(3, score=score)
            self.expect("another score", isinstance(wrong, redis.exceptions.ResponseError), wrong)
        r.delete(fence)
        lock.acquire(3, score=places[1])
        self.expect("a lost F is flagged", len(r.get(fence) or "") == 61, lock.state())
        r.zrem(queue, lock.member(3))
        back = lock.acquire(3, score=places[1])
        self.expect("who was out comes back", back[2:] == [6, places[1], 1], back)
        ahead = int(r.time()[0] + 60) * 10**6
        r.zadd(queue, {lock.member(7): ahead})
        self.expect("behind the last", lock.acquire(8)[2:] == [2, ahead + 1, 4], lock.state())
        r.flushall()
        lock.take(1), lock.acquire(2), lock.acquire(3, nests="1", owner="o7")
        place = int(r.zrange(queue, 1, 1, withscores=True)[0][1])
        lock.short(1), lock.acquire(4, owner="o7", nests="1", wait=False)
        r.zadd(queue, {lock.member(9): 1})
        nested = lock.acquire(3, nests="1", owner="o2", score=place)
        self.expect("what nests does not wait", nested[2] == 1, nested, lock.state())

    def test_pools(self, lock: Lock, r: redis.Redis) -> None:
        """A full pool, its queue, and its handoffs."""
        key, fence, queue, ends = self.keys.K, self.keys.F, self.keys.Q, self.keys.S

        def holds() -> list[int]:
            return sorted(int(who[1:], 16) for who in r.zrange(ends, 0, -1))

        def full(lease: int = 30000) -> None:
            r.flushall()
            for n in (1, 2, 3):
                lock.share(n, lease if n == 1 else 30000, 3)

        def end() -> tuple[int, int, int]:
            last = int(r.zrange(ends, -1, -1, withscores=True)[0][1])
            return last, r.pexpiretime(key) if not self.old else last, last

        full()
        first = lock.acquire(4, "s3")
        self.expect("the first waits", first[2] == 2, first)
        second = lock.acquire(5, "s3")
        self.expect("the next", second[2:3] + second[4:] == [2, 1] and second[3] > first[3], second)
        self.expect("asks again", lock.acquire(5, "s3", score=second[3])[2:] == second[2:])
        self.expect("who holds", lock.acquire(2, "s3", score=5)[2] == 1)
        self.expect("a copy that holds", lock.acquire(2, "s3")[2] == 1 and r.zcard(queue) == 3)
        self.expect("a writer", lock.acquire(6)[2:] == [2, lock.acquire(6)[3], 2])
        self.expect("a larger one", lock.acquire(7, "s5", score=0)[2] == 2)
        self.new_second(r)
        r.pexpire(queue, 5000)
        self.expect("handed on", lock.short(1) == 1 and holds() == [2, 3, 4], lock.state())
        flag = r.get(fence)
        self.expect("marked", flag[:16] == lock.fence(4) and flag[16:48] == CLIENTS[0], flag)
        self.expect("it lives", r.pttl(queue) > 20000 and r.pttl(fence) > DAY - 10000)
        field = r.hget(key, "h" + hold(4))
        self.expect("its field", field == "s" + flag[:16] + CLIENTS[0] + "o4", field)
        self.expect("its end", 2000 < r.zscore(ends, hold(4)) - self.clock.now() * 1000 <= 3000)
        self.expect("the keys live on", end()[0] <= end()[1], end())
        self.expect(
            "with another fence", lock.short(9) == 0 and lock.release(2, "1" * 16, long=False) == 0
        )
        self.expect("a writer is next", lock.short(2) == 1 and holds() == [3, 4, 5])
        self.expect("it waits for all", lock.short(3) == 1 and holds() == [4, 5])
        self.expect("unmarked", lock.short(5) == 1 and r.get(fence)[16:48] == NOBODY, lock.state())
        self.expect("the last of them", lock.short(4) == 1 and lock.holder() == 6, lock.state())

        full(60000)
        lock.acquire(6), lock.short(2)
        self.expect("one ends later", r.pttl(key) > 50000 and r.pttl(ends) > 50000, r.pttl(key))
        full()
        lock.share(4, 30000, 5), lock.acquire(5, "s3"), lock.short(1)
        self.expect("a smaller one waits", holds() == [2, 3, 4], lock.state())
        full(60000)
        lock.acquire(6), lock.acquire(7, "s3")
        lock.short(1)
        self.expect(
            "the keys' end, then the others'", end()[0] == end()[1] and r.pttl(key) <= 30000
        )
        r.zrem(queue, lock.member(6)), r.zadd(queue, {lock.member(6, hold(0xDEAD)): 1})
        self.expect("a dead writer", lock.short(2) == 1 and holds() == [3, 7], lock.state())

        full()
        lock.acquire(4, "s3"), lock.acquire(5, "s5"), lock.acquire(6, "s0")
        lock.short(1)
        self.expect("all that fit", holds() == [2, 3, 4, 5, 6], holds())
        full(40)
        place = lock.acquire(4, "s3")[3]
        self.clock.pass_ms(60)
        self.expect("one has ended", lock.acquire(4, "s3", score=place)[2] == 1, lock.state())
        place = lock.acquire(5, "s3")[3]
        r.zrem(ends, hold(2)), r.hdel(key, "h" + hold(2))
        self.expect("one is gone", lock.acquire(5, "s3", score=place)[2] == 1, lock.state())
        full(40)
        lock.acquire(4, "s3"), lock.acquire(5, "s3"), lock.acquire(6, "s3")
        self.clock.pass_ms(60)
        self.expect("one is over", lock.short(2) == 1 and holds() == [3, 4, 5], holds())
        r.zrem(ends, hold(3))
        self.expect("without its end", lock.short(3) == 0, lock.state())
        full()
        lock.acquire(4, "s3"), lock.acquire(5, "s3"), lock.acquire(6, "s3")
        r.zrem(queue, lock.member(4, mode="s3"))
        r.zadd(queue, {lock.member(4, mode="s3", timeout=1): 1})
        self.expect("who gave up is passed", lock.short(1) == 1 and holds() == [2, 3, 5], holds())
        r.flushall()
        for n in (1, 2, 3):
            lock.acquire(n, "s1")
        self.expect("a pool of one", lock.short(1) == 1 and holds() == [2], lock.state())

    def test_shared(self, lock: Lock, r: redis.Redis) -> None:
        lock.take(1)
        inner, behind = (
            lock.acquire(2, "s0", nests="1" + hold(1), owner="o1"),
            lock.acquire(3, "s0"),
        )
        self.expect(
            "downgrade",
            inner[2] == 1 and behind[2] == 2 and lock.release(1) == 1 and r.zcard(self.keys.S) == 2,
            lock.state(),
        )
        self.expect(
            "header after it",
            r.hget(self.keys.K, "hf1") == "0" * 32 + "n" + "9" * 16 + "s" + "0" * 12,
        )
        self.expect("upgrade", lock.acquire(2000, "x", nests="1" + hold(2), owner="o1")[2] == 9)
        self.expect(
            "named by another",
            lock.acquire(2001, "s1", wait=False, nests="1" + hold(2), owner="o9")[2] == 0,
        )
        self.expect("a writer waits", lock.acquire(5)[2] == 2)
        self.expect(
            "a nested reader passes it",
            lock.acquire(6, "s0", nests="1" + hold(2), owner="o1")[2] == 1,
        )
        self.expect("another does not", lock.acquire(8, "s0")[2] == 2)
        self.expect("leave: many", lock.run("leave", [self.keys.K], hold(2), "0" * 16) == 3)
        self.expect(
            "renew without S",
            lock.run("renew", [self.keys.K], hold(2) + lock.fence(2), 30000, 0, 0)[1] == -4,
        )
        r.flushall()
        lock.take(1)
        for n in range(125):
            lock.acquire(100 + n, "s0")
        more, calls = lock.release(1), 0
        while more == 2 and calls < 9:
            more, calls = 2 if lock.kick()[1] == -2 else 1, calls + 1
        self.expect("125 readers", r.zcard(self.keys.S) == 125 and calls in (2, 3), calls)

    def ended(self, lock: Lock, r: redis.Redis, live: int = 0) -> None:
        """Store more readers than one call removes: their holds have ended, and K still exists."""
        r.flushall()
        for n in range(200):
            lock.share(n)
        past = r.time()[0] * 1000 - 5000
        ends = {h: past + n for n, h in enumerate(r.zrange(self.keys.S, 0, -1)[: 200 - live])}
        r.zadd(self.keys.S, ends)

    def test_readers_that_are_over(self, lock: Lock, r: redis.Redis) -> None:
        self.ended(lock, r)
        answer = lock.acquire(300, "x", wait=False)
        self.expect("free", answer[2] == 1 and lock.renew(300)[1] > 0, answer)
        self.ended(lock, r)
        answer = lock.acquire(300, "s0", score=1)
        self.expect("its place is lost", answer[2] == 1, answer)
        self.expect("a lock of ours", lock.inspect()[0] == 2 and lock.renew(300)[1] > 0)
        self.ended(lock, r, live=1)
        answer = lock.acquire(300, "x", wait=False)
        self.expect("more to take out", answer[1:3] == [-2, 0], answer)
        answer = lock.acquire(300, "x", wait=False)
        self.expect("none", answer[1] > 0 and r.zcard(self.keys.S) == 1, answer)
        # A claim needs the ends.
        words = [CLIENTS[0], hold(1), 30000, 0]
        answer = lock.run("claim", [self.keys.K, self.keys.F], *words)
        self.expect("one of many", answer[1] == -4, answer)

    def test_last_millisecond(self, lock: Lock, r: redis.Redis) -> None:
        """The last millisecond of a shared hold, in which a waiter returns to its place."""
        lock.share(1)
        r.pexpire(self.keys.K, 10)
        self.clock.pass_ms(10)
        answer = lock.acquire(2, "s0", score=1)
        self.expect("joined", answer[2] == 1 and lock.renew(2, mode=2)[1] > 0, lock.state())

    def test_end_of_readers(self, lock: Lock, r: redis.Redis) -> None:
        """The last reader ends while a waiter returns to its place, at each look at the clock."""
        for left_us in range(60 if self.clock.stands else 0):
            r.flushall()
            lock.share(1)
            lock.share(2)
            ends_ms = int(r.zrange(self.keys.S, -1, -1, withscores=True)[0][1])
            self.clock.numbers[1] = ends_ms * 1000 - left_us
            answer = lock.acquire(3, "s0", score=1)
            good = answer[2] == 1 and lock.renew(3, mode=2)[1] > 0
            self.expect(f"joined, {left_us} us before", good, lock.state())

    def test_server_that_stands_still(self, lock: Lock, r: redis.Redis) -> None:
        """The server stands still in a script while a hold gets the form many: its end is no
        earlier."""
        ways = {
            "a reader": (lambda: lock.share(1), lambda: lock.share(2)),
            "a reader, the general way": (
                lambda: lock.share(1),
                lambda: lock.acquire(2, "s0", wait=False),
            ),
            "a nested one": (
                lambda: lock.take(1),
                lambda: lock.acquire(2, wait=False, nests="1", owner="o1"),
            ),
            "a nested one, the general way": (
                lambda: lock.take(1),
                lambda: lock.acquire(2, wait=False, nests="1", owner="o1", lease=0),
            ),
        }
        for what, (first, second) in ways.items() if self.clock.stands else ():
            r.flushall()
            first()
            ends_ms = int(self.clock.now() * 1000) + r.pttl(self.keys.K)
            self.clock.each_look_us(40_000)
            second()
            self.clock.each_look_us(0)
            known = int(r.zscore(self.keys.S, hold(1)))
            self.expect(f"the end of {what}", known > ends_ms - 2, known - ends_ms, lock.state())

    def test_record_of_another_type(self, lock: Lock, r: redis.Redis) -> None:
        r.set(self.keys.R, "x")
        lock.acquire(1, wait=False)
        lock.acquire(2)
        self.expect("begin", "WRONGTYPE" in str(lock.begin(1)))
        self.expect("settle", "WRONGTYPE" in str(lock.settle("f", lock.fence(1))))
        self.expect("not kept", lock.finish(1) == 5)
        self.expect("handed on", lock.holder() == 2, lock.state())
        # The waiter at the head asks for the outcome, and arrived before the record.
        r.delete(self.keys.R)
        lock.acquire(3, "o")
        lock.acquire(4)
        r.set(self.keys.R, "x")
        self.expect("released", lock.release(2) == 1)
        self.expect("passed", lock.holder() == 4, lock.state())
        self.expect("and refused", "WRONGTYPE" in str(lock.acquire(3, "o")))

    def test_readers(self, lock: Lock, r: redis.Redis) -> None:
        """The short ways of shared holds."""
        key, fence, ends = self.keys.K, self.keys.F, self.keys.S
        first = lock.share(1)
        self.expect("alone", r.hgetall(key) == {"s" + hold(1) + first: "o1"} and not r.exists(ends))
        self.expect("the same id again", lock.share(1) == 0)
        self.expect("a writer's take", lock.take(9) == -1)
        second = lock.share(2)
        self.expect(
            "beside another",
            second[16:] == "+" and second > first and r.hget(key, "hf1")[32] == "p",
            lock.state(),
        )
        with contextlib.suppress(redis.exceptions.ResponseError):  # the simulated server lacks it
            self.expect("as a skip list", r.object("encoding", ends) == "skiplist")
        self.expect("a late HDEL", r.hdel(key, "s" + hold(1) + first) == 0)
        self.expect("a pool of 2", lock.share(3, permits=2) == 0 and r.zcard(ends) == 2)
        self.expect("of another fence", lock.leave(1, "0" * 16) == 3 and r.zcard(ends) == 2)
        self.expect("leave", lock.leave(1) == 1 and r.zcard(ends) == 1)
        self.expect("a pool of 2, again", lock.share(3, permits=2)[16:] == "+")
        self.expect(
            "released",
            lock.short(3) == lock.leave(2) == 1 and not r.exists(key, ends),
            lock.state(),
        )
        self.expect("F is plain", len(r.get(fence)) == 16 and r.pttl(fence) > 86000000)
        # A queue closes the short ways, and the last release reads it.
        for readers in (1, 2, 3):
            r.flushall()
            for n in range(readers):
                lock.share(n)
            self.expect(f"a writer queues behind {readers}", lock.acquire(9)[2] == 2, lock.state())
            self.expect("a reader does not pass it", lock.share(8) == 0, lock.state())
            plain = [r.hdel(key, "s" + hold(n) + lock.fence(n)) for n in range(readers)]
            self.expect("nor do they leave without a look", not any(plain), plain)
            self.expect("nor with few keys", {lock.leave(n) for n in range(readers)} == {3})
            for n in range(readers):
                lock.short(n)
            self.expect("the writer is next", lock.holder() == 9, lock.state())
        r.flushall()
        lock.share(1), lock.share(2)
        lock.short(1), lock.short(2)
        self.expect("the last release frees it", not r.exists(key, ends))
        lock.take(1), lock.acquire(2, nests="1", owner="o1", wait=False)
        self.expect("not beside nested exclusive holds", lock.share(3) == 0, lock.state())
        # Ends: K exists until the last, and a hold without an end is not forgotten.
        for long in (lambda: lock.renew(2, lease=0), lambda: lock.acquire(4, "s0", lease=0)):
            r.flushall()
            lock.share(1), lock.share(2)
            long()
            lock.share(3)
            self.expect("a hold without an end", r.pttl(key) == r.pttl(ends) == -1, lock.state())
            lock.short(2), lock.short(4)
            self.expect("and after it", 0 < r.pttl(key) <= 34000 > r.pttl(ends) > 0, lock.state())
        r.flushall()
        lock.share(1), lock.renew(1, lease=0), lock.share(2)
        self.expect("alone and without an end", r.pttl(key) == -1, lock.state())
        lock.short(1)
        self.expect("its end is taken off", 0 < r.pttl(key) <= 30000, lock.state())
        r.flushall()
        lock.share(1), lock.share(2)
        lock.release(1), lock.renew(2, lease=5000, mode=1), lock.share(3)
        self.expect("K does not end before those that moved nothing", r.pttl(key) > 29000)
        r.flushall()
        lock.share(1, lease=60000), lock.share(2, lease=20)
        self.expect("a shorter one shortens nothing", r.pttl(key) > 59000)
        r.flushall()
        lock.share(1, lease=20), lock.share(2, lease=20), lock.share(3, lease=60000)
        self.expect("a longer one makes K longer", r.pttl(key) > 59000 < r.pttl(ends))
        r.flushall()
        lock.share(1, lease=40), lock.share(2, lease=20)
        self.clock.pass_ms(50)
        self.expect("K may be there when all is over", lock.take(9) != -1, lock.state())
        self.expect("and is free then", lock.acquire(9)[2] == 1, lock.state())
        for what, closes in (
            ("a waiter", lambda: lock.acquire(9)),
            ("a heavy hold", lambda: lock.acquire(9, "w9:2", wait=False, lease=20)),
        ):
            r.flushall()
            lock.share(1), lock.share(2)
            closes()
            self.expect(
                f"after {what} K ends with its last hold, or a take finds it busy",
                0 < r.pttl(key) <= 30000 >= r.pttl(ends) > 0,
                lock.state(),
            )
        # A state in which a short way cannot be taken is left unchanged.
        for n, harm in enumerate(
            (
                lambda: r.set(fence, "9" * 15 + "0" + NOBODY + "0" * 13, ex=86400),
                lambda: r.set(fence, "9006199254740989", ex=86400),
            )
        ):
            for readers in (0, 1, 2, 3):
                r.flushall()
                for m in range(readers):
                    lock.share(m)
                harm()
                before = r.hgetall(key), r.zrange(ends, 0, -1), r.get(fence)
                answer = lock.share(7, lease=90000)
                after = r.hgetall(key), r.zrange(ends, 0, -1), r.get(fence)
                self.expect(f"F {n}, {readers} readers", answer == 0 and before == after, after)
                self.expect("F lives", r.pttl(fence) > 86000000)
        r.flushall()
        lock.share(1), lock.share(2)
        r.delete(ends)
        self.expect("without S no reader joins", lock.share(3) == 0 and not r.exists(ends))
        r.flushall()
        r.zadd(ends, {hold(5): 1e15})
        lock.share(1), lock.share(2)
        self.expect("what a lost K has left", sorted(r.zrange(ends, 0, -1)) == [hold(1), hold(2)])
        r.flushall()
        lock.share(1)
        r.delete(fence)
        self.expect("F is lost", lock.share(2) == 0 and lock.acquire(2, "s0")[2] == 1)
        r.delete(fence)
        third = lock.share(3)
        self.expect(
            "F begins anew", third == 0 or (r.get(fence) == third[:16] and r.pttl(fence) > 0)
        )
        r.flushall()
        lock.share(1), lock.share(2)
        r.delete(fence)
        self.expect("F begins anew among readers", lock.share(3)[16:] == "+")
        self.expect("and ends", 0 < r.pttl(fence) <= DAY)
        for floor in (0, 1):
            r.flushall()
            lock.share(1), lock.share(2)
            stamp = int(self.clock.now() * 1e6) + floor * 10**9
            self.expect("the floor", (lock.share(3, floor=stamp) == 0) == bool(floor))
        for words in ((30.5,), ("",), (9,), (315360000001,), ("x",)):
            r.flushall()
            answer = lock.share(1, *words)
            self.expect(
                f"a lease of {words}", not isinstance(answer, str) and not r.exists(key, ends)
            )

    def test_dead_ids(self, lock: Lock, r: redis.Redis) -> None:
        lock.release(5, bury=1)
        self.expect("a dead id's take", lock.take(5) == 0)
        self.expect(
            "a dead id's acquire", lock.acquire(5)[2] == 3 and lock.acquire(5, "s0")[2] == 3
        )
        lock.take(1), lock.acquire(1, wait=False), lock.acquire(2)
        lock.short(1), lock.short(2)
        self.expect(
            "F remembers the dead",
            len(r.get(self.keys.F)) == 61 and r.get(self.keys.F)[16:48] == NOBODY,
            lock.state(),
        )
        self.expect("still dead", lock.take(5) == 0 and lock.acquire(5)[2] == 3)

    # ---------------------------------------------------------------- Cluster

    def cluster(self) -> None:
        with Server(self.program, "--cluster-enabled", "yes", port=free_port()) as server:
            server.redis.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            until = time.time() + 20
            # The client makes a dictionary of the answer.
            while server.redis.execute_command("CLUSTER INFO").get("cluster_state") != "ok":
                if time.time() > until:
                    self.expect("the cluster does not start", False)
                    return
                time.sleep(0.05)
            for name in ("mylock", "my lock", "a{x y}b", "{ }", "a{", "a{b{c}d}"):
                try:
                    self.sharded(name, server)
                except (
                    TypeError,
                    IndexError,
                    AttributeError,
                    redis.exceptions.RedisError,
                ) as error:
                    self.expect(f"cluster, {name!r}: {error!r}", False)

    def sharded(self, name: str, server: Server) -> None:
        lock = Lock(server, name, kind="s", texts=self.texts)
        listener = server.connect().pubsub()

        def heard() -> list[str]:
            message: list[str] = listener.parse_response(block=False, timeout=5) or [
                "nothing",
                "",
                "",
            ]
            return message

        listener.execute_command("SSUBSCRIBE", f"hf:{{{lock.keys.tag}}}:{CLIENTS[0]}")
        self.expect(f"cluster, {name!r}: subscribed", heard()[0] == "ssubscribe")
        lock.take(1), lock.acquire(2), lock.acquire(3, "s0")
        lock.release(77, bury=1)
        first, message = lock.short(1), heard()
        self.expect(
            f"cluster, {name!r}: a sharded message",
            first == 1
            and message[0] == "smessage"
            and message[2][:33] == "g" + hold(2)
            and message[2][33:49] == lock.fence(2)
            and len(message[2]) == 65,
            message,
        )
        second, message = lock.short(2), heard()
        self.expect(
            f"cluster, {name!r}: short release to a reader",
            second == 1 and message[2][1:33] == hold(3),
            message,
        )
        lock.release(3)
        self.expect(
            f"cluster, {name!r}: a dead id",
            lock.take(77) == 0 and lock.acquire(77)[2] == 3,
            lock.state(),
        )


def free_port() -> int:
    """Return a port below those that the system assigns; the cluster's bus is 10000 above it."""
    while True:
        port = random.randrange(16000, 18000)
        with socket.socket() as one, socket.socket() as two, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            two.bind(("127.0.0.1", port + 10000))
            return port


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", default="redis-server")
    options = parser.parse_args()
    wrong = Edges(options.server).all()
    print(f"{len(wrong)} wrong" if wrong else "all right")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
