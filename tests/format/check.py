#!/usr/bin/env python3
"""Random steps of several clients over the scripts, each answer compared with a model.

    check.py [--seeds N] [--first SEED] [--steps N] [--seconds N] [--server PROGRAM]
             [--general | --mutants]

--general: each acquire and release is also carried out without the short ways, by a second server
on a copy of the keys: answers, messages and keys must be the same.
--mutants: breaks one line of the scripts at a time; each mutant must be noticed here or by
edges.py.

Starts its own redis-server. Clients take, wait, share, nest, ask once, lose answers and messages,
send late copies, die, and let leases end; other libraries' locks are taken and released. The model
knows the holders, the waiters in their order, and the result; after each step the keys are checked.
"""

from __future__ import annotations

import argparse
import random
import re
import select
import socket
import sys
import time

import edges
import redis
from server import Server
from texts import NOBODY, Keys, expand, general, member, scripts

KEYS = Keys()
NEVER = float("inf")
KEPT = "0" * 16  # the id of a kept hold begins so
SHORTEST = 60  # ms: the shortest lease
MARGIN = 0.006  # seconds: nearer to the end of a lease the result is open


def record(r: redis.Redis) -> dict[str, str]:
    """Return what is known of the call, without the time at which it was written."""
    found = r.hgetall(KEYS.R)
    return dict(found, hf1=found["hf1"][:49] + found["hf1"][65:]) if found else {}


def last(r: redis.Redis) -> str | None:
    """Return the last fence and the flag; beside a stored limit they are in a field."""
    return r.hget(KEYS.F, "f") if r.type(KEYS.F) == "hash" else r.get(KEYS.F)


class Wrong(Exception):
    """The scripts and the model differ."""


class Unsure(Exception):
    """The machine was too slow to decide; the run ends, and all earlier checks count."""


class Subscriber:
    def __init__(self, server: Server, channel: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(server.socket)
        self.socket.sendall(b"SUBSCRIBE %s\r\n" % channel.encode())
        self.socket.recv(4096)
        self.data = b""

    def peek(self) -> list[str]:
        while select.select([self.socket], [], [], 0)[0]:
            self.data += self.socket.recv(65536)
        return re.findall(
            r"\$7\r\nmessage\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n([^\r]*)\r\n", self.data.decode()
        )

    def messages(self) -> list[str]:
        messages = self.peek()
        self.data = b""
        return messages

    def close(self) -> None:
        self.socket.close()


class Twin:
    """A second server, which carries out the same without the short ways."""

    def __init__(self, server: Server, texts: dict[str, str]) -> None:
        self.server, self.redis = server, server.redis
        self.raw = redis.Redis(unix_socket_path=server.socket)
        self.digests = {
            name: server.redis.script_load(text) for name, text in general(texts).items()
        }
        self.subscribers: dict[str, Subscriber] = {}

    def follow(self, clients: set[str]) -> None:
        for client in set(self.subscribers) - clients:
            self.subscribers.pop(client).close()
            while self.redis.pubsub_numsub(f"hf:{client}")[0][1]:
                time.sleep(0.001)
        for client in clients - set(self.subscribers):
            self.subscribers[client] = Subscriber(self.server, f"hf:{client}")

    def copy(self, run: Run, keys: list[str]) -> None:
        self.copied = time.time()
        source = redis.Redis(unix_socket_path=run.server.socket)
        pipe = source.pipeline()
        for key in keys:
            pipe.dump(key)
            pipe.pttl(key)
        found = pipe.execute()
        now = int(time.time() * 1000)
        pipe = self.raw.pipeline()
        pipe.flushall()
        for key, dump, ttl in zip(keys, found[::2], found[1::2], strict=True):
            if dump:
                pipe.restore(key, now + ttl if ttl > 0 else 0, dump, absttl=True)
        pipe.execute()
        source.close()

    @staticmethod
    def fences(r: redis.Redis) -> tuple[dict[str, str], list[str]]:
        """Return all standing parts that have a fence, with blanks in its place; and the fences."""
        parts: dict[str, tuple[str, int]] = {"F": (last(r) or "", 0)}
        # A short way may leave ended holds to the next call.
        ended = set(r.zrangebyscore(KEYS.S, 0, time.time() * 1000))
        if Twin.kind(r, ended) == "hash":
            for name, value in sorted(r.hgetall(KEYS.K).items()):
                if name[1:] in ended:
                    continue
                if name == "hf1" and value[32] == "p":
                    parts[name] = (value[:32] + "p" + " " * 16 + value[49:], 0)
                elif name == "hf1":
                    parts[name] = (value, 33 if value[32] in "12" else 0)
                elif len(name) == 49:
                    parts[name[:33]] = (name[33:] + value, 0)
                else:
                    parts[name] = (value, 1)
        texts = {name: text[:at] + " " * 16 + text[at + 16 :] for name, (text, at) in parts.items()}
        return texts, [text[at : at + 16] for text, at in parts.values()]

    @staticmethod
    def kind(r: redis.Redis, ended: set[str]) -> str:
        """Return the type of K, which counts as absent when all of its many holds have ended."""
        kind = r.type(KEYS.K)
        left = r.hkeys(KEYS.K) if kind == "hash" and ended else []
        return "none" if left and all(name == "hf1" or name[1:] in ended for name in left) else kind

    def look(self, r: redis.Redis, before: list[str]) -> tuple[list[object], list[float]]:
        """Return the keys, with fences that were not there before as `new`; and all times."""
        texts, fences = self.fences(r)
        new = [fence if fence in before or fence[:1] in ("", "0") else "new" for fence in fences]
        now = time.time() * 1000
        # Dead waiters leave the queue at times that the clock decides.
        queue = [m for m in r.zrange(KEYS.Q, 0, -1) if m[32:64] in self.subscribers]
        ends = [(who, end) for who, end in r.zrange(KEYS.S, 0, -1, withscores=True) if end > now]
        ends.sort()
        dead_until, texts["F"] = float(texts["F"][48:] or 0), texts["F"][16:48]
        # In the form of readers K and S outlast the last reader.
        keys = [KEYS.F, KEYS.R] if self.readers else [KEYS.K, KEYS.F, KEYS.S, KEYS.R]
        times = [now + ttl if (ttl := r.pttl(key)) > 0 else ttl for key in keys]
        # Q's end moves once a second, and ended dead ids may be forgotten at any time.
        times += [r.pttl(KEYS.Q) > 25000 if queue else 0]
        times += [dead_until if dead_until > now else 0]
        times += [0 if end == NEVER else end for _, end in ends]
        # F is flagged if it has 32 more columns.
        kind = self.kind(r, set(r.zrangebyscore(KEYS.S, 0, now)))
        return [texts, new, queue, [who for who, _ in ends], record(r), kind], times

    def same(
        self, run: Run, name: str, keys: list[str], words: tuple, answer: object, before: list[str]
    ) -> None:
        other = self.redis.evalsha(self.digests[name], len(keys), *keys, *words)

        def wrong(what: str, one: object, two: object) -> None:
            took = self.copied - MARGIN, time.time() + MARGIN
            # A hold that either server granted meanwhile may have ended before the look.
            if took[1] - took[0] > SHORTEST / 1000 or any(
                took[0] < h["ends"] < took[1] for h in run.holds.values()
            ):
                raise Unsure
            run.wrong(f"{name} {words}: {what} {one}, the general way {two}; before: {before}")

        def unlike(one, two) -> bool:
            if type(one) is not type(two) or isinstance(one, str):
                return one != two
            if isinstance(one, list):  # a record
                return one[1:] != two[1:] or one[0][:49] + one[0][65:] != two[0][:49] + two[0][65:]
            return abs(one - two) > 200 and not (
                one > 1e15 and two > 1e15 and f"{one:016d}" not in before
            )

        if isinstance(answer, list):
            ones, twos = list(answer), list(other)
            if ones[2:3] == [1]:  # a holder does not ask again
                ones[1] = twos[1] = 0
            if len(ones) != len(twos) or any(map(unlike, ones, twos)):
                wrong("the answer is", answer, other)
        elif answer != other:
            wrong("the answer is", answer, other)
        self.redis.ping()
        run.redis.ping()
        for client, subscriber in run.subscribers.items():
            one, two = subscriber.peek(), self.subscribers[client].messages()
            if [m[:33] for m in one] != [m[:33] for m in two]:
                wrong("the messages are", one, two)
        self.readers = any(
            "hf1" in fields and fields["hf1"][32] == "p"
            for fields in (
                r.hgetall(KEYS.K) for r in (run.redis, self.redis) if r.type(KEYS.K) == "hash"
            )
        )
        (one, times), (two, others) = self.look(run.redis, before), self.look(self.redis, before)
        if one != two:
            wrong("the keys are", one, two)
        # F's end moves once a second.
        slack = [1200] * len(times) if self.readers else [200, 1200, *[200] * len(times)]
        if any(abs(a - b) > most for a, b, most in zip(times, others, slack, strict=False)):
            wrong("the times are", times, others)


class Run:
    def __init__(
        self,
        server: Server,
        digests: dict[str, str],
        seed: int,
        counts: dict[str, int],
        twin: Twin | None = None,
    ) -> None:
        self.twin = twin
        self.server, self.redis, self.digests, self.counts = server, server.redis, digests, counts
        self.seen = time.time()  # the model knows all ends up to this time
        self.random, self.seed, self.log = random.Random(seed), seed, []
        self.redis.flushall()
        self.serial = seed * 100000
        self.subscribers: dict[str, Subscriber] = {}
        for _ in range(3):
            self.client()
        self.holds: dict[str, dict] = {}
        self.queue: dict[str, dict] = {}  # id -> the waiter
        self.copies: list = []
        self.buried: set[str] = set()
        self.foreign, self.top = False, 0
        self.record: dict | None = None  # of the call
        self.limit: tuple[int, int] | None = None
        self.stored: list[tuple] = []  # requests that changed the limit, of which a copy may arrive
        self.refused: list[dict] = []  # waiters that asked by another number
        self.ended: list[tuple[str, int, dict]] = []  # made a call, and hold nothing now
        self.kind = self.random.choice(["x", "x", "xs", "s", "xs", "ox", "ox"])

    # ---------------------------------------------------------------- Helpers

    def client(self) -> str:
        self.serial += 1
        client = f"{self.serial:032x}"
        self.subscribers[client] = Subscriber(self.server, f"hf:{client}")
        return client

    def wrong(self, why: str):
        raise Wrong(
            f"seed {self.seed}: {why}\n"
            + "\n".join(map(str, self.log[-25:]))
            + f"\nholds {self.holds}\n"
            f"queue {self.queue}\nkeys {self.keys()}"
        )

    def keys(self):
        r = self.redis
        held = r.hgetall(KEYS.K) if r.type(KEYS.K) == "hash" else r.type(KEYS.K)
        return (
            held,
            (last(r), self.limit),
            r.zrange(KEYS.Q, 0, -1, withscores=True),
            r.zrange(KEYS.S, 0, -1, withscores=True),
        )

    def run(self, name: str, keys: list[str], *words):
        twin, before = self.twin if name in ("acquire", "release", "renew") else None, []
        if twin and name == "release" and len(words) == 2 and self.unknown_after(words[0]):
            twin = None  # the short way lets acquires that ask for an outcome ask again
        if name == "renew" and 0 < words[1] < 1000:
            twin = None  # the hold may have ended before the keys are compared
        if twin:
            twin.follow(set(self.subscribers))
            twin.copy(self, list(dict.fromkeys([*keys, *KEYS.all])))
            before = twin.fences(self.redis)[1]
        self.sent = time.time()
        try:
            answer = self.redis.evalsha(self.digests[name], len(keys), *keys, *words)
        except redis.exceptions.ResponseError as error:
            self.wrong(f"{name} {words}: {error}")
        self.log.append((name, *words, answer))
        self.count(name)
        now = time.time()
        # Ends count from `sent`.
        if now - self.sent > MARGIN / 2 or any(
            self.seen - MARGIN < hold["ends"] < now + MARGIN for hold in self.holds.values()
        ):
            raise Unsure
        self.seen = now
        if twin:
            self.count("compared")
            twin.same(self, name, keys, words, answer, before)
        return answer

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def live(self, client: str) -> bool:
        return client in self.subscribers

    # ---------------------------------------------------------------- The model

    def lapse(self) -> None:
        """Drop all holds that have ended; wait while an end is nearer than MARGIN."""
        while True:
            now = time.time()
            near = [
                h["ends"]
                for h in self.holds.values()
                if now - MARGIN < h["ends"] < now + 4 * MARGIN
            ]
            if not near:
                break
            time.sleep(max(near) + MARGIN - now + 0.001)
        self.seen = now
        ghosts = set()
        for who in [who for who, hold in self.holds.items() if hold["ends"] < now]:
            hold = self.gone(who)
            self.count("ended")
            if hold["pushed"]:
                ghosts.add(hold["client"])
        if not self.holds:  # K is gone with its fields: F has one client
            ghosts &= {(last(self.redis) or "")[16:48]}
        # A client that let a grant end asks for all its waiters at once; until then their places
        # are open.
        for client in ghosts:
            self.count("ghost")
            for w in self.queue.values():
                if w["client"] == client:
                    w["out"] = True
        if ghosts:
            for client in sorted(
                {w["client"] for w in self.queue.values() if w["out"] and self.live(w["client"])}
            ):
                self.ask_all(client)

    def outcome(self) -> bool:
        """Return whether there is an outcome to report."""
        known = self.record
        # The call is in progress while its fence is held: a hold that nests in the caller's has the
        # same.
        return bool(known) and (known["kind"] in "de" or self.unknown_after(""))

    def unknown_after(self, who: str) -> bool:
        """Return whether the outcome of a call is unknown once that hold has ended."""
        known = self.record
        return (
            bool(known)
            and known["kind"] == "b"
            and not any(
                hold["mode"] != "s" and hold["fence"] == known["fence"]
                for each, hold in self.holds.items()
                if each != who
            )
        )

    def exclusive(self) -> bool:
        return any(hold["mode"] != "s" for hold in self.holds.values())

    def fits(self, w: dict) -> bool:
        if self.foreign:
            return False
        if not self.holds:
            return True
        return (
            w["mode"][0] == "s"
            and not self.exclusive()
            and (w["permits"] == 0 or self.weight() + w["weight"] <= w["permits"])
        )

    def differs(self, w: dict) -> bool:
        """Return whether it asks by another number than the stored one."""
        if w["mode"] != "s":
            return False
        if not self.limit:
            return w["permits"] == 0 and w["weight"] > 1
        permits, per = self.limit
        return w["permits"] != permits or (per > 0 and w["lease"] != per)

    def refuse(self, who: str) -> None:
        self.refused = [*self.refused[-3:], self.queue.pop(who)]

    def weight(self) -> int:
        return sum(hold["weight"] for hold in self.holds.values())

    def ordered(self) -> list[str]:
        alive = [who for who, w in self.queue.items() if self.live(w["client"]) and not w["out"]]
        return sorted(alive, key=lambda who: self.queue[who]["score"])

    def hand_on(self) -> list[str]:
        """Return the waiters that a general script admits, or tells of a result, in this order."""
        served = []
        for who in self.ordered():
            w = self.queue[who]
            if who not in self.asking and self.differs(w):
                served.append(("r", who))
                self.refuse(who)
            elif w["mode"] == "o" and self.outcome() and who not in self.asking:
                served.append(("r", who))
                self.queue.pop(who)
                w["served"] = True
            elif self.fits(w):
                served.append(("g", who))
                self.queue.pop(who)
                asks = who in self.asking
                lease = w["lease"] if asks else min(w["lease"] or 3000, 3000)
                ends = self.sent + lease / 1000 if lease else NEVER
                self.holds[who] = dict(
                    w, mode=w["mode"][0], ends=ends, pushed=not asks, known=asks, fence=None
                )
            else:
                break
        return served

    asking: set[str] = set()

    def hear(self, expected: list, lose: bool = True) -> None:
        """Check that these messages arrive, and no others; some clients lose theirs, others
        answer."""
        self.redis.ping()
        grants, told = {}, set()
        for client, subscriber in self.subscribers.items():
            for text in subscriber.messages():
                if text[0] == "g":
                    if len(text) != 65:
                        self.wrong(f"message {text}")
                    grants[text[1:33]] = (int(text[33:49]), int(text[49:65]))
                else:
                    told.add(client)
        wanted = [who for kind, who in expected if kind == "g" and who not in self.asking]
        if sorted(grants) != sorted(wanted):
            self.wrong(f"granted {sorted(grants)}, expected {wanted}")
        fences = [grants[who][0] for who in wanted]
        if fences != sorted(fences):
            self.wrong("granted in another order")
        for who in wanted:
            fence, at = grants[who]
            hold = self.holds[who]
            if fence <= self.top:
                self.wrong(f"fence {fence} after {self.top}")
            self.top = hold["fence"] = fence
            hold["ends"] = at / 1e6 + min(hold["lease"] or 3000, 3000) / 1000
            self.count("granted")
            if lose and self.random.random() < 0.15:
                self.log.append(("lost", who))
                self.count("message lost")
            else:
                hold["known"] = True
        waited = {who: self.told[who] for kind, who in expected if kind == "r" and who in self.told}
        if self.short and waited and not told:  # the short way did not look: they ask again
            self.queue |= waited
            self.count("left to ask again")
        elif told != {w["client"] for w in waited.values()}:
            self.wrong(f"told {told}, expected {expected}")

    told: dict[str, dict] = {}
    short = False  # perhaps by the short way: no waiter is told of an outcome

    def general(self, asking: set[str] = frozenset()) -> None:
        """Apply what a script does that hands on."""
        self.asking = set(asking)
        self.told = dict(self.queue)
        served = self.hand_on()
        self.hear(served)
        self.asking = set()

    # ---------------------------------------------------------------- Steps

    def words(self, who: str, w: dict, waits: bool) -> list:
        mode = w["mode"] + (str(w["permits"]) if w["mode"] == "s" else "")
        if w["weight"] > 1:
            mode = f"w{w['permits']}:{w['weight']}"
        text = member(who, w["client"], mode, w["lease"], w["owner"], w["timeout"]) if waits else ""
        place = w["score"] or -1000 * w["ahead"]
        return [who, w["owner"], w["lease"], mode, w["nests"], text, place if waits else 0]

    def new(self) -> tuple[str, dict]:
        self.serial += 1
        pick = self.random.choice
        mode = pick({"x": "x", "xs": "xs", "s": "sssx", "ox": "oox"}[self.kind])
        client = pick(sorted(self.subscribers))
        permits = pick([0, 0, 1, 2, 3, 5]) if mode == "s" else 0
        lease = pick([30000, 30000, 5000, 0, SHORTEST])
        if mode == "s" and self.limit and self.random.random() < 0.7:
            permits = self.limit[0]
            lease = (self.random.random() < 0.8 and self.limit[1]) or lease
        return f"a{self.serial:031x}", {
            "client": client,
            "owner": f"{client[-3:]}:{self.random.randrange(2)}",
            "mode": mode,
            "lease": lease,
            "permits": permits,
            "weight": pick([1, 1, *range(1, (permits or (mode == "s" and 3)) + 1)]),
            "timeout": pick([0, 100000]),
            "score": 0,
            # The twin's clock goes on: there a short head start would pass other waiters than here.
            "ahead": pick([0, 0, 30000] if self.twin else [0, 0, 0, 2, 10, 50, 30000]),
            "out": False,
            "nests": "0" if mode == "o" else "1",
            "parent": None,
        }

    def granted(self, who: str, w: dict, fence: int, left: int, nested: bool) -> None:
        if nested:
            pass
        elif fence <= self.top:
            self.wrong(f"fence {fence} after {self.top}")
        self.top = max(self.top, fence)
        ends = NEVER if left == -1 else self.sent + left / 1000
        self.holds[who] = dict(
            w, mode=w["mode"][0], ends=ends, pushed=False, known=True, fence=fence
        )
        self.count(("nested " if nested else "held ") + w["mode"])

    def ask(self) -> None:
        who, w = self.new()
        waits = self.random.random() < 0.75
        exclusive = [h for h in self.holds.values() if h["mode"] != "s"]
        within = (
            exclusive[0]["fence"]
            if exclusive and exclusive[0]["owner"] == w["owner"] and w["nests"] == "1"
            else None
        )
        mine = [j for j, h in self.holds.items() if h["owner"] == w["owner"] and h["known"]]
        upgrade = False
        if not within and mine and w["mode"] != "o" and self.random.random() < 0.6:
            w["nests"] = "1" + mine[0]
            upgrade = w["mode"] == "x" or w["weight"] > self.holds[mine[0]]["weight"]
            within = self.holds[mine[0]]["fence"]
        floor = 0
        if self.random.random() < 0.1:
            floor = self.top + self.random.choice([0, 1000, 60000])
        request = None
        if w["mode"] == "x" and w["lease"] and not floor and self.random.random() < 0.5:
            plain = last(self.redis)
            free = not self.redis.exists(KEYS.K)
            request = ("take", [KEYS.K, KEYS.F], "h" + who, w["owner"], w["lease"], "0" * 16)
            fence = self.run(*request)
            if fence not in (0, -1):
                if self.holds or self.foreign or self.ordered() or self.limit:
                    self.wrong("take passed a waiter")
                self.granted(who, w, int(fence), w["lease"], False)
            elif (
                free
                and not self.limit
                and (plain is None or len(plain) == 16)
                and int(plain or 0) < self.sent * 1e6 - 1000
            ):
                self.wrong("take refused a free lock")
            elif waits and not w["ahead"] and self.random.random() < 0.7:
                request = ("wait", [KEYS.K, KEYS.Q], self.words(who, w, True)[5], w["owner"])
                answer = self.run(*request)
                if answer != 0:
                    if not self.exclusive() and not self.foreign and not self.redis.exists(KEYS.K):
                        self.wrong("wait queued where no script looks")
                    if within:
                        self.wrong("wait queued behind its own hold")
                    w["score"] = int(answer[:16])
                    self.queue[who] = w
        if w["mode"] == "s" and w["weight"] == 1 and w["lease"] and not floor and w["nests"] == "1":
            self.share(who, w)
        if who not in self.holds and who not in self.queue:
            request = ("acquire", [*KEYS.all, KEYS.dead(who)], floor, *self.words(who, w, waits))
            answer = self.run(*request)
            if w["mode"] == "o" and self.outcome() and not within:
                self.expect_record(answer, 2)
                self.general()
            elif within and upgrade and not exclusive:
                self.expect(answer, 9)
                self.general()
            elif not within and self.differs(w):
                self.expect_limit(answer, 2)
                self.general()
                request = None
            elif within:
                self.expect(answer, 1)
                if answer[3] != within:
                    self.wrong(f"nested in {within}")
                self.granted(who, w, answer[3], answer[4], True)
                self.general()
            elif waits and w["ahead"] and self.ordered():
                # It has its place before the lock is handed on.
                w["score"] = answer[0] - 1000 * w["ahead"]
                self.queue[who] = w
                if self.ordered()[-1] != who:
                    self.count("ahead of others")
                self.answered(who, answer, 2, {who})
                if answer[2] in (6, 8):
                    self.wrong("it had no place before")
            else:
                self.general()
                if self.fits(w) and not self.ordered():
                    self.expect(answer, 1)
                    if answer[3] <= floor:
                        self.wrong("a fence below the floor")
                    self.granted(who, w, answer[3], answer[4], False)
                elif waits:
                    self.expect(answer, 4 if self.foreign else 2)
                    w["score"] = answer[3]
                    if w["ahead"] and w["score"] != answer[0] - 1000 * w["ahead"]:
                        self.wrong("its head start is another")
                    rank = len(self.ordered())
                    self.queue[who] = w
                    if self.ordered()[-1] != who or answer[4] < rank:
                        self.wrong("not the last in the queue")
                else:
                    self.expect(answer, 0)
        # The answer is lost, and the request is sent again; or a copy arrives late.
        if request and (request[0] != "acquire" or answer[2] in (1, 2, 4)):
            if self.random.random() < 0.25:
                self.again(who, w, request)
            if self.random.random() < 0.2:
                self.copies.append((who, w, request))

    def share(self, who: str, w: dict) -> None:
        """Take the short way of a shared acquire; if it does nothing, `acquire` is next."""
        if self.random.random() < 0.2:
            return
        keys = [KEYS.K, KEYS.F, KEYS.S]
        request = ("share", keys, who, w["owner"], w["lease"], w["permits"], "0" * 16)
        answer = self.run(*request)
        if answer == -1 and not self.exclusive():
            self.wrong("share says that there is an exclusive hold")
        if answer == -2 and not self.limit:
            self.wrong("share says that there is a limit")
        if answer in (0, -1, -2):
            return
        if not self.fits(w) or self.ordered() or self.limit:
            self.wrong("share passed a waiter")
        beside = answer[16:] == "+"  # also a hold that has ended and is still stored
        if beside != (self.redis.zcard(KEYS.S) > 1) or (self.holds and not beside):
            self.wrong("share miscounts")
        self.granted(who, w, int(answer[:16]), w["lease"], False)
        self.count("shared")
        if self.random.random() < 0.2:
            self.copies.append((who, w, request))

    def expect(self, answer: list, state: int, at: int = 2) -> None:
        if answer[at] != state:
            self.wrong(f"state {answer[at]}, expected {state}")

    def expect_limit(self, answer: list, at: int) -> None:
        self.expect(answer, 10, at)
        if tuple(answer[at + 1 : at + 3]) != (self.limit or (0, 0)):
            self.wrong(f"told of another limit than {self.limit}")
        self.count("told the limit")

    def expect_record(self, answer: list, at: int) -> None:
        self.expect(answer, 5, at)
        known, told = self.record, answer[at + 1]
        if told and (
            told[0][:49] != f"{known['who']}{known['kind']}{known['fence']:016d}"
            or told[0][73:138] != known["terms"]
            or told[2] != known["bytes"]
            or (answer[at + 2] == -1) != (known["kind"] == "b")
        ):
            self.wrong(f"the record is {told}, expected {known}")
        self.count("told " + known["kind"])

    def again(self, who: str, w: dict, request: tuple) -> None:
        """Send a copy of a request whose id is still held, waits, or is dead."""
        answer = self.run(*request)
        self.count("copy")
        if request[0] in ("take", "share"):
            if answer not in (0, -1, -2):
                self.wrong(f"a copy of {request[0]}")
            return
        if request[0] == "wait":
            if who in self.queue and answer != 0:
                self.wrong("queued twice")
            if who in self.buried and answer != 0:
                self.wrong("a dead id is queued")
            if answer != 0:
                raise Unsure  # held and queued again: its release removes the member
            return
        asking = {who} if who in self.queue else set()
        if who in self.holds:
            hold = self.holds[who]
            self.expect(answer, 1)
            self.general()
            if hold["fence"] != answer[3]:
                self.wrong("another fence")
            hold["known"] = True
        elif who in self.buried:
            self.expect(answer, 3)
            self.general()
        elif who in self.queue:
            self.answered(who, answer, 2, asking)
        else:
            self.wrong("a copy of nothing")

    def nests_now(self, who: str, answer: list, at: int) -> bool:
        """Return whether the waiter nests: its owner holds the lock now."""
        w = self.queue[who]
        mine = [h for h in self.holds.values() if h["mode"] != "s" and h["owner"] == w["owner"]]
        named = self.holds.get(w["nests"][1:])
        if not (mine or (named and w["mode"] == "s")) or w["nests"] == "0":
            return False
        if not mine and w["weight"] > named["weight"]:
            raise Unsure  # it is refused, and leaves the queue
        self.expect(answer, 1, at)
        if answer[at + 1] != (mine[0] if mine else named)["fence"]:
            self.wrong("nested elsewhere")
        self.queue.pop(who)
        self.granted(who, w, answer[at + 1], answer[at + 2], True)
        return True

    def answered(self, who: str, answer: list, at: int, asking: set[str]) -> None:
        """Check the answer for an id that waited and asked, alone or as the last of several."""
        w = self.queue[who]
        if self.nests_now(who, answer, at):
            self.general()
            return
        if self.differs(w):
            self.refuse(who)
            self.expect_limit(answer, at)
            self.general()
            return
        if w["mode"] == "o" and self.outcome():
            self.queue.pop(who)
            self.expect_record(answer, at)
            self.general()
            return
        w["out"] = False
        top = self.top  # the script may grant the lock to others after it
        self.general(asking)
        if who in self.holds:
            self.expect(answer, 1, at)
            hold = self.holds[who]
            if answer[at + 1] <= top:
                self.wrong("fence")
            hold["fence"] = answer[at + 1]
            self.top = max(self.top, hold["fence"])
            hold["ends"] = NEVER if answer[at + 2] == -1 else self.sent + answer[at + 2] / 1000
        elif answer[at] not in ((4, 8) if self.foreign else (2, 6)) or answer[at + 1] != w["score"]:
            self.wrong(f"{who} should wait: {answer}")

    def ask_all(self, client: str) -> None:
        """Send one request for all waiters of a client, and for grants that came without a
        message."""
        ids = [who for who, w in self.queue.items() if w["client"] == client]
        ids += [who for who, h in self.holds.items() if h["client"] == client and not h["known"]]
        self.random.shuffle(ids)
        words = []
        for who in ids:
            w = self.queue.get(who) or self.holds[who]
            words += self.words(who, dict(w, mode=w["mode"][0]), True)
        if not ids:
            return
        answer = self.run("acquire", KEYS.all + [KEYS.dead(who) for who in ids], 0, *words)
        for who in list(ids):
            w = self.queue.get(who)
            if w and self.nests_now(who, answer, 2 + 3 * ids.index(who)):
                continue
            if w and self.differs(w):
                self.expect_limit(answer, 2 + 3 * ids.index(who))
                self.refuse(who)
            elif w and w["mode"] == "o" and self.outcome():
                self.expect_record(answer, 2 + 3 * ids.index(who))
                self.queue.pop(who)
            elif w:
                w["out"] = False
        waited = [who for who in ids if who in self.queue]
        self.general(set(waited))
        granted = []
        for n, who in enumerate(ids):
            at = 2 + 3 * n
            if who in waited and who in self.queue:
                if (
                    answer[at] not in ((4, 8) if self.foreign else (2, 6))
                    or answer[at + 1] != self.queue[who]["score"]
                ):
                    self.wrong(f"{who} should wait")
            elif who in self.holds:
                self.expect(answer, 1, at)
                hold = self.holds[who]
                if who in waited:
                    granted.append(answer[at + 1])
                    hold["fence"] = answer[at + 1]
                    hold["ends"] = (
                        NEVER if answer[at + 2] == -1 else self.sent + answer[at + 2] / 1000
                    )
                elif hold["fence"] != answer[at + 1]:
                    self.wrong("another fence")
                hold["known"] = True
        if len(set(granted)) != len(granted):
            self.wrong("one fence for two")
        self.top = max([self.top, *granted])

    def all_ask(self) -> None:
        for client in sorted(self.subscribers):
            self.ask_all(client)

    def known(self, kind: str, who: str, fence: int, terms: str, text: str = "") -> None:
        self.record = {"kind": kind, "who": who, "fence": fence, "terms": terms, "bytes": text}

    def keeps(self, who: str, hold: dict, how: str, live: bool, terms: str) -> int:
        """Return the answer to a release with `how`, and apply its effect on the record."""
        was, fence = self.record, hold["fence"]
        own = was and was["who"] == who and was["fence"] == fence
        if how in "de":
            if own and was["kind"] in "de":
                return 1 if live else 6
            others = was and (was["kind"] == "b" or (was["kind"] in "de" and terms[0] == "m"))
            if not own and (not live or hold["mode"] == "s" or others):
                return 7 if was else 5 if live else 0
            self.known(how, who, fence, was["terms"] if own else terms, f"{how} of {who}")
            return 1 if live else 6
        if not own or was["kind"] != "b":
            return 1 if live else 0
        if how == "n":
            self.known("r", who, fence, was["terms"])
        return 1 if live else 6

    def terms(self) -> str:
        return self.random.choice(["m" + "-" * 64, "m" + "a" * 64, "m" + "b" * 64])

    def begin(self) -> None:
        """Begin a call; perhaps one whose hold has ended, or that has begun before."""
        mine = [
            (who, h)
            for who, h in self.holds.items()
            if h["known"] and h["fence"] and self.live(h["client"])
        ]
        late = self.random.choice(self.ended)[:3:2] if self.ended else None
        who, hold = late if late and self.random.random() < 0.2 else (mine or [(None, None)])[0]
        if who is None:
            return
        was, terms = self.record, self.terms()
        own = was and was["kind"] == "b" and was["who"] == who
        words = [who, f"{hold['fence']:016d}", terms, 0, ""]
        answer = self.run("begin", [KEYS.K, KEYS.S, KEYS.R], *words)
        again = (
            was and was["kind"] == "r" and (was["terms"] == terms or "-" in was["terms"] + terms)
        )
        if who not in self.holds or hold["mode"] == "s":
            self.expect(answer, 0)
        elif was and not own and not again:
            self.expect_record(answer, 2)
        else:
            self.expect(answer, 1)
            if answer[3] != hold["fence"]:
                self.wrong("begun under another fence")
            self.known("b", who, hold["fence"], terms)
            self.count("begun")

    def late_finish(self) -> None:
        """Finish a call whose hold has ended, perhaps for the second time."""
        if not self.ended:
            return
        who, _, hold = self.random.choice(self.ended)
        how, terms = self.random.choice("deun"), self.random.choice([self.terms(), "-" * 65])
        text, ms = (f"{how} of {who}", 20000) if how in "de" else ("", 0)
        kept = self.keeps(who, hold, how, False, terms)
        words = [who, f"{hold['fence']:016d}", 0, "", ms, text, how, terms]
        answer = self.run("release", KEYS.all, *words)
        if answer != kept:
            self.wrong(f"a late {how}: {answer}, and {kept}")
        self.count(f"late {how}: {answer}")
        self.after_call(kept == 6 and how != "n")

    def settle(self) -> None:
        """Settle a call as a caller that has looked, perhaps at an earlier record."""
        was = self.record
        verb, force = self.random.choice("derf"), self.random.random() < 0.3
        self.serial += 1
        who, text = f"{self.serial:032x}", "by hand" if verb in "de" else ""
        fence = was["fence"] if was and self.random.random() < 0.8 else self.top - 1
        words = [verb, f"{max(fence, 1):016d}", who, int(force), 20000, text, "settler", ""]
        answer = self.run("settle", [*KEYS.all, KEYS.dead(who)], *words)
        if answer != 2 and self.run("settle", [*KEYS.all, KEYS.dead(who)], *words) != answer:
            self.wrong("a copy of a settlement")
        tells = False
        if not was or was["fence"] != fence:
            wanted = 0
        elif was["kind"] == verb == "r":
            wanted = 1
        elif was["kind"] == "b" and not self.unknown_after("") and not force:
            wanted = 3
        else:
            # The hold may also be one that nests in the caller's, which has ended.
            ends = was["kind"] == "b" and not self.unknown_after("")
            if ends:
                for other in [j for j, h in self.holds.items() if h["fence"] == fence]:
                    self.gone(other)
            if (verb == "r" and was["kind"] != "b") or (
                verb in "de" and not force and was["kind"] in "de"
            ):
                wanted = 4
            else:
                wanted, tells = 1, verb in "de"
                if verb == "f":
                    self.record = None
                else:
                    self.known(verb, was["who"] if verb == "r" else who, fence, was["terms"], text)
        if answer != wanted:
            self.wrong(f"settle: {answer}, expected {wanted}")
        self.count(f"settle {verb}: {answer}")
        if wanted == 1 and was["kind"] != verb:
            self.after_call(tells)
        elif wanted == 1:
            self.after_call(tells and verb in "de")

    def after_call(self, tells: bool) -> None:
        """Apply a change of the record: waiters that asked are told, and the lock is handed on."""
        if not tells:
            self.general()
            return
        before = dict(self.queue)
        told = [("r", j) for j in self.ordered() if self.queue[j]["mode"] == "o"]
        for _, j in told:
            self.queue.pop(j)
        self.asking = set()
        served = self.hand_on()
        self.told = before
        self.hear(told + served)

    def gone(self, who: str) -> dict:
        hold = self.holds.pop(who)
        if hold["fence"]:
            self.ended = [*self.ended[-5:], (who, 0, hold)]
        return hold

    def release(self, who: str, bury: bool = False, how: str = "") -> None:
        hold = self.holds[who]
        words = [who, f"{hold['fence']:016d}"]
        keys = list(KEYS.all)
        late = bury or any(copy[0] == who for copy in self.copies)
        if late or how or self.random.random() < 0.3:
            words += [int(late), ""]
        if late:
            keys.append(KEYS.dead(who))
            self.buried.add(who)
        if how:
            terms = self.random.choice([self.terms(), "-" * 65])
            text, ms = (f"{how} of {who}", 20000) if how in "de" else ("why", 0)
            words += [ms, text, how, terms]
        shared = hold["mode"] == "s"
        plain = not late and not how and self.random.random() < 0.4
        if plain and shared and len(self.holds) > 1:
            if self.run("leave", [KEYS.K, KEYS.S], who, f"{hold['fence']:016d}") == 1:
                self.count("leave")
                if self.ordered():
                    self.wrong("left without a look at the queue")
                self.gone(who)
                return
        elif plain:
            name = f"{'s' if shared else 'h'}{who}{hold['fence']:016d}"
            gone = self.redis.hdel(KEYS.K, name)
            self.log.append(("hdel", who, gone))
            if gone:
                self.count("hdel")
                if self.ordered():
                    self.wrong("released without a look at the queue")
                self.gone(who)
                return
        if not late and not how and self.random.random() < 0.5:
            words[0] = hold.get("was", who)  # its client does not know that it is kept
        answer = self.run("release", keys, *words)
        before = self.record
        kept = self.keeps(who, hold, how, True, terms) if how else 1
        if answer != kept:
            self.wrong("release")
        self.gone(who)
        if hold["pushed"] and not hold["known"]:
            self.count("given back")
        self.told = dict(self.queue)
        own = before and before["kind"] == "b" and before["who"] == who
        self.short = len(words) == 2 and self.outcome()
        self.after_call(kept == 1 and ((how and how in "de") or (how == "u" and bool(own))))
        self.short = False

    def give_back(self) -> None:
        known = sorted(
            who for who, h in self.holds.items() if h["known"] and self.live(h["client"])
        )
        if known:
            who = self.random.choice(known)
            once = self.kind == "ox" and self.random.random() < 0.6
            self.release(who, how=self.random.choice("dddeun") if once else "")
            if self.random.random() < 0.2:  # a retry does not touch another's hold
                if self.run("release", KEYS.all, who, "", 0, "") != 0:
                    self.wrong("released twice")
                self.general()

    def cancel(self) -> None:
        ids = sorted(who for who, w in self.queue.items() if self.live(w["client"]))
        ids += sorted(
            who for who, h in self.holds.items() if not h["known"] and self.live(h["client"])
        )
        if not ids:
            return
        who = self.random.choice(ids)
        w = self.queue.get(who) or self.holds[who]
        bury = any(copy[0] == who for copy in self.copies)
        text = self.words(who, w, True)[5]
        answer = self.run("cancel", [*KEYS.all, KEYS.dead(who)], who, int(bury), text)
        first = min((h["ends"] for h in self.holds.values()), default=NEVER) + 0.2
        owners = {h["owner"] for h in self.holds.values() if h["mode"] != "s" or h["ends"] <= first}
        if bury:
            self.buried.add(who)
        if who in self.holds:
            self.expect(answer, 1)
            self.holds[who]["known"] = True
        else:
            self.expect(answer, 0)
            self.queue.pop(who)
            if owners and answer[5] not in owners:
                self.wrong(f"held by {answer[5]}, expected {owners}")
        self.general()

    def late(self) -> None:
        if self.copies:
            who, w, request = self.copies.pop(self.random.randrange(len(self.copies)))
            if who in self.holds and request[0] == "wait":
                return
            if who in self.holds or who in self.queue or who in self.buried:
                self.count("late copy")
                self.again(who, w, request)

    def renewals(self) -> None:
        ids = sorted(who for who, h in self.holds.items() if h["known"] and self.live(h["client"]))
        if not ids:
            return
        self.random.shuffle(ids)
        ids = ids[:3]
        if self.random.random() < 0.4:
            who, hold = ids[0], self.holds[ids[0]]
            answer = self.run(
                "claim",
                [KEYS.K, KEYS.F, KEYS.S],
                hold["client"],
                f"{who}{hold['fence']:016d}",
                hold["lease"],
                self.random.randrange(2),
            )
            self.renewed(who, answer[1], hold["lease"], 0)
            hold["pushed"] = False
            if last(self.redis)[16:48] == hold["client"] and not any(
                h["pushed"] and h["client"] == hold["client"] for h in self.holds.values()
            ):
                self.wrong("the mark stays")
            return
        lease, mode = self.random.choice([30000, 60000, 80, 0]), self.random.choice([0, 1, 2])
        words = []
        taken = self.redis.hlen(KEYS.K) == 1  # S does not matter, and the short way may be gone
        ends = 0 if taken and self.random.random() < 0.8 else len(ids) + 1
        for who in ids:
            words += [f"{who}{self.holds[who]['fence']:016d}", lease, mode, ends]
        answer = self.run("renew", [KEYS.K] * len(ids) + [KEYS.S], *words)
        for who, left in zip(ids, answer[1:], strict=True):
            self.renewed(who, left, lease, mode)
        if not ends:
            self.count("renewed as taken")

    def renewed(self, who: str, left: int, lease: int, mode: int) -> None:
        hold = self.holds[who]
        ends = self.sent + lease / 1000 if lease else NEVER
        wanted = ends if mode == 1 else hold["ends"] if mode == 2 else max(ends, hold["ends"])
        got = NEVER if left == -1 else self.sent + left / 1000
        if left < -1 or (wanted != got and abs(wanted - got) > 0.05):
            self.wrong(f"{who} has {left} left, expected {wanted - self.sent}")
        hold["ends"] = got

    def leaves(self) -> None:
        """Keep a hold: it is not extended by an earlier request of its client."""
        ids = [who for who, h in self.holds.items() if h["known"] and not h["pushed"]]
        ids = [who for who in sorted(ids) if not who.startswith(KEPT)]
        if not ids:
            return
        who, lease = self.random.choice(ids), self.random.choice([30000, 60000, 80, 0])
        kept, named = KEPT + who[16:], f"{who}{self.holds[who]['fence']:016d}"
        self.holds[kept] = self.holds.pop(who)
        self.holds[kept]["was"] = who
        for _ in range(self.random.choice([1, 1, 2])):  # and a copy
            answer = self.run("renew", [KEYS.K, KEYS.S], named, lease, 3, 2)
            self.renewed(kept, answer[1], lease, 1)
        mode = self.random.choice([0, 1, 2])
        answer = self.run("renew", [KEYS.K, KEYS.S], named, 60000, mode, 2)
        self.renewed(kept, answer[1], 60000, 2)
        client = self.holds[kept]["client"]
        answer = self.run("claim", [KEYS.K, KEYS.F, KEYS.S], client, named, 60000, 0)
        self.renewed(kept, answer[1], 60000, 2)

    def die(self) -> None:
        client = self.random.choice(sorted(self.subscribers))
        self.subscribers.pop(client).close()
        while self.redis.pubsub_numsub(f"hf:{client}")[0][1]:
            time.sleep(0.001)
        self.log.append(("dies", client))
        self.count("death")
        self.queue = {who: w for who, w in self.queue.items() if w["client"] != client}
        self.client()
        first = self.ordered()[:1]
        if first and self.fits(self.queue[first[0]]):  # a newcomer's short way may pass it
            self.ask_all(self.queue[first[0]]["client"])
        ids = [who for who, h in self.holds.items() if h["client"] == client]
        if ids:  # its leases end soon
            words = []
            for who in ids:
                words += [f"{who}{self.holds[who]['fence']:016d}", 30, 1, len(ids) + 1]
            answer = self.run("renew", [KEYS.K] * len(ids) + [KEYS.S], *words)
            for who, left in zip(ids, answer[1:], strict=True):
                self.renewed(who, left, 30, 1)

    def others(self) -> None:
        if self.foreign:
            self.redis.delete(KEYS.K)
            self.foreign = False
            self.log.append(("no foreign lock",))
            self.all_ask()
        elif not self.holds and not self.redis.exists(KEYS.K):
            if self.random.random() < 0.5:
                self.redis.set(KEYS.K, "token", px=60000)
            else:
                self.redis.hset(KEYS.K, "uuid:1", 1)
                self.redis.pexpire(KEYS.K, 60000)
            self.foreign = True
            self.log.append(("foreign lock",))
            self.count("foreign")

    def breaks(self) -> None:
        known = sorted(who for who, h in self.holds.items() if h["fence"])
        if not known:
            return
        who = self.random.choice(known)
        hold = self.holds[who]
        wrong = self.random.random() < 0.2
        one = not self.exclusive()
        nobodys = max(h["fence"] or 0 for h in self.holds.values()) + 1000
        answer = self.run("break", KEYS.all, nobodys if wrong else hold["fence"], 0)
        if answer != (0 if wrong else 1):
            self.wrong("break")
        if wrong:
            return
        for other in list(self.holds):
            if not one or self.holds[other]["fence"] == hold["fence"]:
                self.gone(other)
        self.general()

    def forget(self) -> None:
        if self.record and self.redis.delete(KEYS.R):
            self.record = None
        time.sleep(self.random.choice([0.002, 0.06]))
        self.lapse()
        self.all_ask()

    def limits(self) -> None:
        """Store another limit, as an operator does, and hand on."""
        was = self.limit or (0, 0)
        self.limit = self.random.choice([None, (1, 0), (2, 0), (3, 0), (5, 0), (2, 30000)])
        self.serial += 1
        request = [KEYS.K, KEYS.F, KEYS.dead(f"b{self.serial:031x}")], self.limit or (0, 0), was
        self.stored = [*self.stored[-5:], request]
        for keys, words, was in [request, self.random.choice(self.stored)]:
            answer = self.run("limit", keys, *words)
            if tuple(answer) != was:
                self.wrong(f"the limit was {was}")
        self.run("acquire", KEYS.all, 0)
        self.general()

    def comes_back(self) -> None:
        """Ask again by the number that the answer gave, under a new id, at the first place."""
        if not self.refused:
            return
        w = self.refused.pop(self.random.randrange(len(self.refused)))
        if not self.live(w["client"]):
            return
        permits, per = self.limit or (w["permits"], 0)
        w = dict(w, permits=permits, lease=per or w["lease"], nests="0", out=False)
        w["weight"] = min(w["weight"], permits) or 1
        self.serial += 1
        who = f"a{self.serial:031x}"
        keys = [*KEYS.all, KEYS.dead(who)]
        answer = self.run("acquire", keys, 0, *self.words(who, w, True))
        self.queue[who] = w
        self.answered(who, answer, 2, {who})
        self.count("came back")

    def step(self) -> None:
        self.lapse()
        what = self.random.choices(
            [
                self.ask,
                self.give_back,
                self.cancel,
                self.late,
                self.renewals,
                self.leaves,
                self.die,
                self.others,
                self.breaks,
                self.forget,
                self.begin,
                self.late_finish,
                self.settle,
                self.limits,
                self.comes_back,
            ],
            [
                *(40, 28, 5, 7, 9, 3, 2, 3, 2, 8),
                *([14, 6, 6] if self.kind == "ox" else [0, 0, 0]),
                *([4, 6] if self.kind in ("s", "xs") else [1, 0]),
            ],
        )[0]
        what()
        self.invariants()

    # ---------------------------------------------------------------- What must be true

    def invariants(self) -> None:
        # One script, so that nothing happens in between. A server up to 7.0 reads its clock for
        # each TTL, and may stand still within the script: the TTLs are from between its two
        # readings.
        held, fence_text, queue, ends, ttls, from_ms, to_ms = self.redis.evalsha(
            self.digests["look"], 4, KEYS.K, KEYS.F, KEYS.Q, KEYS.S
        )
        fields = dict(zip(held[::2], held[1::2], strict=True))
        waits = [m for m in queue if m != "~"]
        ttl = dict(zip("KFQS", ttls, strict=True))
        form = "none"
        if not self.foreign and fields:
            head = fields.get("hf1")
            form = (
                "taken"
                if head is None
                else {
                    "1": "one",
                    "2": "one",
                    "n": "many",
                    "p": "many",
                    "w": "many",
                }[head[32]]
            )
            if form != "many" and len(fields) != 1:
                self.wrong(f"I2: two fields in the form {form}")
        if fence_text and len(fence_text) == 16 and (waits or form == "one"):
            self.wrong("I1: F is plain")
        if form == "one" and (self.buried or self.limit) and fields["hf1"][32] != "2":
            self.wrong("I2: wait may queue a dead id")
        if form == "taken" and waits:
            self.wrong("I2: taken, and there is a waiter")
        plain = form == "many" and fields["hf1"][32] == "p"
        if plain and [m for m in waits if self.live(m[32:64])]:
            self.wrong("I2: a waiter that no release of a shared hold would see")
        if plain and (self.exclusive() or fields["hf1"][33:36] != "000"):
            self.wrong("I2: an exclusive hold in the form of readers")
        if self.limit and ttl["F"] != -1:
            self.wrong("a limit with an end")
        if fence_text and not self.limit and not 86000000 < ttl["F"] < 87000000:
            self.wrong("F's TTL")
        if waits and (queue[-1] != "~" or not 0 < ttl["Q"] <= 30000):
            self.wrong("the queue's end")
        if form == "many":
            ids = {name[1:] for name in fields if name != "hf1"}
            if ids != set(ends[::2]):
                self.wrong("I3: K and S differ")
            x = sum(value[0] not in "sw" for name, value in fields.items() if name != "hf1")
            head = fields["hf1"]
            if (
                int(head[16:32]) != x
                or head[49] != ("x" if x else "s")
                or (x == 0) != (head[62:] == "")
            ):
                self.wrong("I4: x")
            extra = sum(
                int(value[49:59]) - 1
                for name, value in fields.items()
                if name != "hf1" and value[0] == "w"
            )
            if int(head[50:62]) != extra or (head[32] == "w") != (extra > 0):
                self.wrong("I4: the sum of the weights")
            if extra:
                self.count("weighed")
            owners = {
                value[59 if value[0] == "w" else 49 :]
                for name, value in fields.items()
                if name != "hf1"
            }
            if x and owners != {head[62:]}:
                self.wrong("I4: owners")
            infinite = "inf" in ends[1::2]
            if infinite != (ttl["K"] == -1) or abs(ttl["K"] - ttl["S"]) > 50 + to_ms - from_ms:
                self.wrong(f"TTL {ttl}")
            latest = 0 if infinite else max(map(float, ends[1::2]))
            until = float(head[36:49]) if plain else 0
            if not infinite and to_ms + ttl["K"] < max(latest, until) - 5:
                self.wrong("K ends before a hold does")
            if not infinite and not plain and from_ms + ttl["K"] > latest + 5:
                self.wrong("K outlives its holds, and a take finds it busy")
            self.count("readers" if plain else "many")
            if any(
                value[17:49] != NOBODY
                for name, value in fields.items()
                if name != "hf1" and name[1:] in self.holds and not self.holds[name[1:]]["pushed"]
            ):
                self.wrong("a claimed hold has a mark")
        now = time.time()
        answer = self.redis.evalsha(
            self.digests["inspect"], 5, KEYS.K, KEYS.Q, KEYS.S, KEYS.R, KEYS.F, 0, 100
        )
        if any(now - MARGIN < h["ends"] < time.time() + MARGIN for h in self.holds.values()):
            raise Unsure
        live = {who for who, h in self.holds.items() if h["ends"] > now}
        lefts = answer[6][3::6]
        last_left = -1 if -1 in lefts else max(lefts, default=answer[3])
        if abs(answer[3] - last_left) > 5:
            self.wrong(f"the last hold ends at another time: inspect {answer}")
        listed = {answer[6][n]: answer[6][n + 1 : n + 6] for n in range(0, len(answer[6]), 6)}
        if set(listed) != live or answer[1] != len(live):
            self.wrong(f"inspect {answer}")
        for who, (mode, fence, left, owner, weight) in listed.items():
            hold = self.holds[who]
            until = NEVER if left == -1 else (answer[5] / 1000 + left) / 1000
            if until != hold["ends"] and abs(until - hold["ends"]) > 0.2:
                self.wrong(f"{who} has {left} left: {answer}")
            if (
                fence != hold["fence"]
                or owner != hold["owner"]
                or weight != hold["weight"]
                or (mode == "s") != (hold["mode"] == "s")
            ):
                self.wrong(f"inspect {answer}")
        state = (
            4  # neither a plain string nor that hash shows that it is a lock
            if self.foreign
            else 0
            if not live
            else 1
            if any(self.holds[who]["mode"] != "s" for who in live)
            else 2
        )
        if answer[0] != state:
            self.wrong(f"inspect {answer}")
        if tuple(answer[9:11]) != (self.limit or (0, 0)):
            self.wrong(f"inspect {answer}, expected the limit {self.limit}")
        seats = [answer[7][n] for n in range(0, len(answer[7]), 7)]
        known = [who for who in seats if who in self.queue and not self.queue[who]["out"]]
        if [who for who in known if self.live(self.queue[who]["client"])] != self.ordered():
            self.wrong(f"the queue is {seats}, expected {self.ordered()}")

    def end(self) -> None:
        """Release everything: every waiter is served, and nothing is left."""
        if self.foreign:
            self.others()
        self.kind, self.copies = "x", []
        for _ in range(300):
            self.lapse()
            self.all_ask()
            if not self.holds and not self.queue:
                break
            for who in sorted(self.holds):
                if who in self.holds:
                    self.lapse()
                    if who in self.holds and self.holds[who]["fence"]:
                        self.release(who)
        else:
            self.wrong("not all are served")
        self.run("acquire", KEYS.all, 0)
        left = self.redis.exists(KEYS.K, KEYS.S, KEYS.Q)
        if left:
            self.wrong("something is left behind")
        if not self.buried and last(self.redis) and len(last(self.redis)) != 16:
            self.wrong("F stays flagged")

    def all(self, steps: int) -> None:
        try:
            for _ in range(steps):
                self.step()
            self.end()
        finally:
            for subscriber in self.subscribers.values():
                subscriber.close()


LOOK = """
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local from_ms = now_ms()
local held = redis.call('TYPE', KEYS[1]).ok == 'hash' and redis.call('HGETALL', KEYS[1]) or {}
local ttls = {}
for i = 1, 4 do ttls[i] = redis.call('PTTL', KEYS[i]) end
local last = redis.pcall('GET', KEYS[2])
if type(last) == 'table' then last = redis.call('HGET', KEYS[2], 'f') end
return { held, type(last) == 'string' and last or '', redis.call('ZRANGE', KEYS[3], 0, -1),
  redis.call('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES'), ttls, from_ms, now_ms() }
"""


def load(server: Server, texts: dict[str, str]) -> dict[str, str]:
    return {name: server.redis.script_load(text) for name, text in dict(texts, look=LOOK).items()}


def check(
    server: Server,
    texts: dict[str, str],
    seeds: range,
    steps: int,
    until: float,
    twin: Twin | None = None,
) -> tuple[int, dict[str, int]]:
    digests, counts, done = load(server, texts), {}, 0
    for seed in seeds:
        if time.time() > until:
            break
        try:
            Run(server, digests, seed, counts, twin).all(steps)
            done += 1
        except Unsure:
            counts["too slow to tell"] = counts.get("too slow to tell", 0) + 1
    return done, counts


# ---------------------------------------------------------------------- Mutants

NO = "-" * 32
# Script or include, a text, and its replacement.
MUTANTS = [
    ("take", "#old == 16 and old < fence", "old < fence"),
    ("take", "if fence <= ARGV[4] then return 0 end", ""),
    ("take", "and 0 or -1", "and 0 or 0"),
    ("_grant", "local time = call('TIME')\nlocal ends = time", "local ends = time"),
    ("acquire", "time = call('TIME') -- end_of_key() says why\n", ""),
    ("share", "time = call('TIME') -- end_of_key() says why\n", ""),
    ("wait", "or sub(v, 63) == ARGV[2]", ""),
    ("wait", "'NX', ", ""),
    ("_hears", "channel)[2] or 0) > 0", "channel)[2] or 0) > -1"),
    ("release", "last >= stamp or", ""),
    ("release", "or sub(v, 50, 50) ~= 's') then break end", ") then break end"),
    ("release", "stamp .. client .. dead", f"stamp .. '{NO}' .. dead"),
    ("release", "dead == '0000000000000' and '1' or '2'", "'1'"),
    ("release", "fence ~= '' and (call('HDEL'", "(call('HDEL'"),
    ("release", "if client == mark then mark = NOBODY end\nerr = drop", "err = drop"),
    ("release", "short and lease + 0 or '3000'", "'3000'"),
    ("_grant", "(spreads or call(", "(call("),
    ("share", "count >= (tonumber(permits) or 0)", "count > (tonumber(permits) or 0)"),
    (
        "share",
        "if done == 1 and (not old or (#old == 16 and old < stamp)) then return stamp end",
        "if done == 1 and (not old or sub(old, 1, 16) < stamp) then return stamp end",
    ),
    ("share", "(#old == 16 and old < stamp)) then\nif", "#old == 16) then\nif"),
    ("share", "(#old == 16 and old < stamp)) then\nif", "sub(old, 1, 16) < stamp) then\nif"),
    ("share", "if not last or #last ~= 16 or last >= stamp then return 0 end", ""),
    ("share", "if stamp <= ARGV[5] then return 0 end", ""),
    ("share", "if name then pcall('HDEL', K, name) end", ""),
    ("share", "pcall('HDEL', K, 'hf1', 'h' .. id, 'h' .. sub(name, 2, 33))", ""),
    ("share", "if first ~= 'inf' then pcall('PEXPIREAT', K, first) end", ""),
    ("share", "ends > till and", ""),
    ("share", "and call('ZREVRANK', S, id) == 0, nil", ", nil"),
    ("share", "if later and first ~= 'inf' then", "if later then"),
    ("share", "if count == 0 or", "if"),
    ("share", "if call('EXISTS', S) == 1 then call('DEL', S) end", ""),
    ("share", "done = pcall('PEXPIREAT', S, till)", "done = 1"),
    ("share", "if done == 1 then done = pcall('PEXPIREAT', K, till) end", ""),
    ("share", "if later then pcall('HSET', K, 'hf1', v) end", ""),
    ("share", "(first and first > ends and first or ends)", "ends"),
    ("share", "if not old then pcall('PEXPIRE', F, '86400000') end", ""),
    ("share", "or sub(v, 50, 50) ~= 's'", ""),
    ("leave", "sub(field, 2, 17) ~= fence", "false"),
    ("leave", "if redis.call('EXISTS', S) == 0 then redis.pcall('DEL', K) end", ""),
    ("leave", "if form == 'p' and S then", "if form and S then"),
    ("release", "if call('EXISTS', S) == 0 then pcall('DEL', K) end", ""),
    ("take", "sub(v, 33, 33) == 'p' and 0 or -1", "false and 0 or -1"),
    ("acquire", "elseif held.form == 'taken' then", "elseif false then"),
    ("acquire", "elseif held.till then", "elseif false then"),
    ("acquire", "err = shut()", "return shut()"),
    ("_grant", "weight > 1 and shut() or refused", "refused"),
    (
        "_grant",
        "header()) or last_end(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2])",
        "header())",
    ),
    (
        "_state",
        "if held and held.till and ends ~= 'inf' and ends + 0 < held.till + 0 then",
        "if false then",
    ),
    ("_state", "held.till = nil\nreturn till and refused('HSET', K, 'hf1', header()) or", "return"),
    ("_grant", "refused('HDEL', K, 's' .. was.id .. was.fence)", ""),
    ("acquire", "if ttl >= 0 then err = pcall('PEXPIREAT', S, latest) end", ""),
    ("acquire", "if not first or (first ~= 'inf' and first <= sub(stamp, 1, 13))", "if not first"),
    ("acquire", "pcall('HDEL', K, name)\nreturn", "return"),
    ("acquire", "call('EXISTS', S, Q) > 0", "call('EXISTS', S) > 0"),
    ("acquire", "call('EXISTS', KEYS[5 + i]) == 1", "false"),
    ("acquire", "string.find(record, '^[de]', 33)", "true"),
    ("acquire", "if how == 'o' and size == 0 then", "if size == 0 then"),
    ("acquire", "if floor > last then", "if false then"),
    ("acquire", "or sub(last, 49) ~= '0000000000000'", ""),
    ("acquire", "or nests and sub(v or '', 63) == owner then break end", "then break end"),
    ("acquire", "if sub(v, 1, 32) == id or", "if"),
    ("acquire", "or (again ~= 'inf' and again <= sub(stamp, 1, 13))", ""),
    ("acquire", "or call('HGET', K, 'h' .. id) then", "then"),
    ("acquire", "if permits == 0 or call('ZCARD', S) < permits then break end", ""),
    ("acquire", "if top and top >= stamp then break end", ""),
    ("acquire", "if not heard then break end", ""),
    ("acquire", "if added ~= 1 or late then", "if false then"),
    ("acquire", "if late then pcall('PEXPIRE', F, '86400000') end", ""),
    ("acquire", "or not gone(parse(m), tonumber(some[i + 1])) then break end", "then break end"),
    ("release", "and (permits == 0 or count <= permits)", ""),
    ("release", "(soonest ~= 'inf' and soonest <= sub(stamp, 1, 13)) or", ""),
    ("release", "or (not fits and count == 1) then", "then"),
    ("release", "if most == 0 or count < most then break end", ""),
    ("release", "if till ~= 'inf' and ends > till then till = ends end", ""),
    ("release", "two[#two - 1] ~= id and latest or", ""),
    ("release", "if done ~= 1 then\nif fits", "if false then\nif fits"),
    ("release", "if done == 1 and till ~= latest then", "if false then"),
    ("release", "if pool == 'marked' then", "if false then"),
    ("acquire", "else\nerr = mend_one()\nend", "end"),
    ("acquire", "err = refused('ZREM', Q, '') or mend_one() or remember(last, mark, flagged)", ""),
    ("acquire", "refused('ZREM', Q, '') or mend_one() or remember", "mend_one() or remember"),
    ("acquire", "'') or mend_one() or remember(last, mark, flagged)", "'') or mend_one()"),
    (
        "acquire",
        "'') or mend_one() or remember(last, mark, flagged)",
        "'') or remember(last, mark, flagged)",
    ),
    ("_grant", "held.n + held.extra + a.weight <= a.permits", "held.n + a.weight <= a.permits"),
    ("_grant", "held.extra + a.weight <= a.permits", "held.extra + a.weight <= a.permits + 1"),
    ("_grant", "held.extra + a.weight <= a.permits", "held.extra < a.permits"),
    (
        "_grant",
        "held.extra = held.extra - weight + 1\nif client ~= NOBODY",
        "if client ~= NOBODY",
    ),
    ("_grant", "held.extra = held.extra - weight + 1\nrefused", "refused"),
    ("_grant", "held.x ~= x or held.extra ~= extra", "held.x ~= x"),
    (
        "_grant",
        "if mode ~= 's' or weight > 1 then\nif mode ~= 's' then held.x = held.x - 1",
        "if mode ~= 's' then\nif mode ~= 's' then held.x = held.x - 1",
    ),
    ("_grant", "held.extra = held.extra + weight - 1", ""),
    ("_state", "held.extra > 0 and 'w' or 'n'", "'n'"),
    ("_grant", "a.permits ~= sub(limit, 1, 10) + 0 or", ""),
    ("_grant", "or (per > 0 and a.lease ~= per)", ""),
    ("_grant", "return a.permits == 0 and a.weight > 1 end", "return false end"),
    (
        "_grant",
        "(differs(a) or a.mode == 'o' and has_outcome())",
        "a.mode == 'o' and has_outcome()",
    ),
    ("_grant", "elseif flag and not limit then", "elseif flag then"),
    (
        "_state",
        "err = refused('HSET', F, 'f', value, 'l', limit)",
        "err = refused('SET', F, value)",
    ),
    ("_state", "(limit or buried >", "(buried >"),
    ("acquire", "elseif differs(a) then", "elseif false then"),
    ("limit", "err = mend_one() or was", "err = was"),
    ("limit", "refused('DEL', F) or", "nil or"),
    ("limit", "if not done then", "if true then"),
    ("limit", "if #done ~= 22 then return", "if false then return"),
    ("limit", "was = done", ""),
    ("limit", "err = refused('SET', D, was", "err = not done and refused('SET', D, was"),
    ("limit", "if err then refused('DEL', D) end", ""),
    ("share", "'WRONGTYPE', 1, true) and -2 or old", "'WRONGTYPE', 1, true) and 0 or old"),
    ("take", "string.find(old.err, 'WRONGTYPE', 1, true) and 0 or old", "old"),
    ("acquire", "or at - a.ahead", "or at"),
    ("acquire", "top and top >= at and top + 1 or", "top and top + 1 or"),
    (
        "acquire",
        "top and top >= at and top + 1 or at - a.ahead",
        "math.max((top or 0) + 1, at) - a.ahead",
    ),
    ("acquire", "local at = now + i - 1", "local at = now"),
    ("acquire", "a.out or a.ahead > 0 and place(a, i) then", "a.out then"),
    ("acquire", "a.out or a.ahead > 0 and place(a, i) then", "a.out or a.ahead > 0 then"),
    ("acquire", "a.out = a.score > 0", "a.out = a.score ~= 0"),
    ("acquire", "a.score >= -3600000000 and", "true and"),
    ("acquire", "or a.weight > most)", ")"),
    ("acquire", "if not shared and #how ~= 1 then break end", ""),
    ("acquire", "or m.weight ~= a.weight", ""),
    ("_grant", "ghosts[mark], mark = true, NOBODY", "mark = NOBODY"),
    ("_grant", "(lease == 0 or lease > 3000) and 3000 or lease", "lease"),
    ("cancel", "or refused('ZREM', Q, ARGV[3])", ""),
    ("cancel", "local id, owner, again = holder()", "local id, owner, again = '', ''"),
    ("claim", "if mark == client then mark = NOBODY end", ""),
    ("inspect", "ttl = left(ms(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]))", ""),
    ("_state", "or last > fence", ""),
    ("_state", "buried > sub(stamp, 1, 13) or", ""),
    ("_state", "return mend_one() or remember", "return remember"),
    ("_state", "if ms(latest) < new then latest = score end", ""),
    ("_state", "if ends and granted ~= fence and fence ~= '' then ends = nil end", ""),
    ("renew", ", lease, 'GT')", ", lease)"),
    ("renew", " or refused('HDEL', K, letter .. id .. fence)", ""),
    ("renew", "sub(call('HGET', K, 'hf1'), 33)", "'1' .. sub(call('HGET', K, 'hf1'), 34)"),
    ("renew", " or refused('ZREM', S, id)", ""),
    ("renew", "(kept and mode ~= '3')", "false"),
    ("renew", "mode == '3' and not kept and", "mode == '3' and"),
    ("release", "drop(at, ends, mode, weight)", "drop(id, ends, mode, weight)"),
    ("claim", "or at ~= id then", "then"),
    ("claim", "if held and held.form == 'many' and not S then return { now, -4 } end", ""),
    (
        "_grant",
        "if held.first <= now_ms and ms(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]) <= now_ms",
        "if false",
    ),
    ("acquire", "first > now_ms and left(first) or -2", "left(first)"),
    ("_once", "if type(record) == 'table' then record, wrong = nil, record end", ""),
    ("_state", "return id, granted == fence and ends or nil,", "return id, ends,"),
    ("_grant", "local unknown = kind == 'b'", "local unknown = false"),
    ("_grant", "if ms ~= '' and call('PTTL', R) < 0 then refused('PEXPIRE', R, ms) end", ""),
    ("_grant", "and not (held and held.x > 0 and held.fence == sub(v, 34, 49))", ""),
    ("begin", "if not ends or granted ~= fence or mode ~= 'x' then", "if false then"),
    ("begin", "local own = kind == 'b' and written_by(id, fence)", "local own = record"),
    ("begin", "ms > 0 and ARGV[4] or '', 0)", "'', ms)"),
    ("release", "has_outcome() -- its time runs", ""),
    ("begin", "theirs == terms or find(theirs", "true or find(theirs"),
    ("release", "local may = own or ends", "local may = ends"),
    ("release", "if result and own and (kind == 'd' or kind == 'e') then", "if false then"),
    ("release", "local may = own or ends\nand", "local may = own or true\nand"),
    ("release", "if kept and how ~= 'n' then tell_all() end", ""),
    ("release", "return err or 5", "return 5"),
    ("release", "err = refused('HSET', R, 'n'", "local _ = refused('HSET', R, 'n'"),
    ("release", "err = rewrite(id, 'r', nil", "local _ = rewrite(id, 'r', nil"),
    ("acquire", "== 0 then held = nil end -- its end", "< 0 then held = nil end --"),
    ("_grant", "local v = pcall('HGET', R, 'hf1')", "local v = call('HGET', R, 'hf1')"),
    ("_grant", "or unknown or not kind) and v", "or unknown) and v"),
    ("release", "rewrite(id, 'r', nil", "rewrite(id, 'b', nil"),
    ("settle", "not record or sub(record, 34, 49) ~= fence then", "not record then"),
    ("settle", "runs and not force then", "false then"),
    ("settle", "refused('SET', D, answer == 1", "tostring(answer == 1"),
    ("settle", "or refused('SET', D, verb, 'PX', '600000')", ""),
    (
        "settle",
        "if held.form == 'many' then err = delete(K, S) else err = delete(K) end\n"
        "if not err then held, mark = nil, NOBODY end",
        "",
    ),
    ("settle", "err = rewrite(id, verb", "err = rewrite(sub(record, 1, 32), verb"),
    ("settle", "if held or not runs then return", "do return"),
    ("settle", "elseif stays then\ntell_all()", "elseif false then"),
]


def noticed(program: str, texts: dict[str, str], seeds: range, steps: int, seconds: float) -> str:
    """Return what noticed the mutant, and how soon; empty: nothing did."""
    if wrong := edges.Edges(program, texts, quiet=True).all(cluster=False):
        return f"edges.py: {wrong[0]}"
    since = time.time()
    with Server(program) as server, Server(program) as other:
        for name, twin in (("check.py", None), ("check.py --general", Twin(other, texts))):
            digests, counts = load(server, texts), {}
            for run, seed in enumerate(seeds):
                if time.time() > since + seconds:
                    break
                try:
                    Run(server, digests, seed, counts, twin).all(steps)
                except Unsure:
                    pass
                except (
                    Wrong,
                    TypeError,
                    IndexError,
                    KeyError,
                    ValueError,
                    redis.RedisError,
                ) as error:
                    return f"{name}, run {run + 1}: {str(error).splitlines()[0][:60]!r}"
            since = time.time()
    return ""


def mutated(name: str, old: str, new: str) -> dict[str, str]:
    texts = scripts()
    broken = [n for n, text in texts.items() if old in text and (n == name or name[0] == "_")]
    if not broken or expand(f"{name}.lua").count(old) != 1:
        raise SystemExit(f"{name}.lua has no longer, or more than once: {old}")
    for n in broken:
        texts[n] = texts[n].replace(old, new, 1)
    return texts


def mutants(program: str, seeds: range, steps: int, seconds: float) -> list[str]:
    survivors = []
    if by := noticed(program, scripts(), seeds, steps, seconds):
        raise SystemExit(f"nothing is broken, but noticed by {by}")
    for name, old, new in MUTANTS:
        texts = mutated(name, old, new)
        by = noticed(program, texts, seeds, steps, seconds)
        print(f"{name:8} {old[:60]!r} -> {new[:24]!r}: {by or 'SURVIVED'}", flush=True)
        if not by:
            survivors.append(f"{name}: {old}")
    return survivors


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument(
        "--seconds", type=float, default=60, help="in all; of a mutant for each way"
    )
    parser.add_argument("--server", default="redis-server")
    parser.add_argument("--general", action="store_true")
    parser.add_argument("--mutants", action="store_true")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.mutants:
        survivors = mutants(options.server, seeds, options.steps, options.seconds)
        sys.exit("\n".join(["survived:", *survivors]) if survivors else 0)
    for mutant in MUTANTS:
        mutated(*mutant)  # check that each still fits
    texts = scripts()
    with Server(options.server) as server, Server(options.server) as other:
        twin = Twin(other, texts) if options.general else None
        try:
            until = time.time() + options.seconds
            done, counts = check(server, texts, seeds, options.steps, until, twin)
        except Wrong as error:
            sys.exit(str(error))
    print(f"{done} runs:", ", ".join(f"{what} {count}" for what, count in sorted(counts.items())))
    if counts.get("acquire", 0) < options.steps:
        sys.exit("hardly anything was checked")


if __name__ == "__main__":
    main()
