#!/usr/bin/env python3
"""Compare the simulated Redis with a real one: the same random commands, the same answers, byte for
byte.

    twin.py SIM_SERVER [--seeds N] [--first SEED] [--steps N] [--seconds N]

The commands are of every kind that the simulation knows, valid and invalid, and the real scripts.
Only answers that contain a time may differ a little. Starts its own redis-server, and stops it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import random
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "format"))
from clock import Clock
from texts import Keys, member, scripts

LOCK = Keys("lock")
CLIENTS = [f"{n:032x}" for n in (0xC0, 0xC1)]
TEXTS = scripts()
# The clock decides at which places an acquire looks for dead waiters.
TEXTS["acquire"] = TEXTS["acquire"].replace("now % size, now % size + 3", "0, 3")
TEXTS["acquire"] = TEXTS["acquire"].replace("us % (rank + 2), us % (rank + 2)", "0, 0")
DRAWN = [*TEXTS, "take", "acquire", "acquire", "release"]
SNIPPETS = [
    "return {KEYS, ARGV}",
    "return {1, 2.9, -3.1, 'x', true, false, {ok = 'fine'}, nil, 4}",
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('HGET', KEYS[1], 'f')",
    "return redis.call('SET', KEYS[1], 1 / 3)",
    "return redis.call('ZADD', KEYS[1], 1e15, 'm', 0.1, 'n')",
    "return redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')",
    "return redis.call('HGETALL', KEYS[1])",
    "return {redis.pcall('DEL', KEYS[1]), redis.pcall('SET', KEYS[1], 'x')}",
    "return redis.pcall('NOSUCH', KEYS[1])",
    "return redis.call('NOSUCH')",
    "return redis.call('GET')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.pcall('SUBSCRIBE', 'x')",
    "return redis.error_reply('MINE is wrong')",
    "return redis.error_reply('-MINE is wrong')",
    "return redis.status_reply('fine')",
    "return redis.sha1hex(KEYS[1])",
    "return redis.acl_check_cmd('SET', KEYS[1], 1)",
    "return redis.acl_check_cmd('NOSUCH', KEYS[1])",
    "return {pcall(redis.call, 'NOSUCH')}",
    "return {pcall(error, {err = 'MINE x'})}",
    "error('oops')",
    "error({err = 'MINE oops'})",
    "return nosuch",
    "nosuch = 1",
    "local a = nil; return a.b",
    "return 1 +",
    "return tostring(1e15) .. 0.1 .. 1700000000000123",
    "return tonumber('0x10')",
    "return #redis.call('TIME')",
    "return redis.call('PUBLISH', 'hf:' .. ARGV[1], 'text')",
    "return redis.call('PUBSUB', 'NUMSUB', 'hf:' .. ARGV[1])",
    "return redis.call('TYPE', KEYS[1])",
    "return {redis.call('SET', KEYS[1], 'a', 'PX', 100000, 'GET'), redis.call('PTTL', KEYS[1])}",
]
CHANNELS = [f"hf:{client}" for client in CLIENTS]
NAMES = ["a", "b", "{t}c", LOCK.K]
FIELDS = ["f", "g", "", "hf1", "x" * 70]
NUMBERS = ["0", "1", "-1", "5", "100000", "x", "", "9223372036854775807", "1.5", "inf", "(1"]
MS = ["100000", "1000000", "0", "-1", "x", "99999999999999999999", "9223372036854775807"]
# A word in capitals is a choice of the tables above, or itself.
FORMS = """GET K|SET K F|SET K F PX M|SET K F NX GET|SET K F XX PX M|SET K F KEEPTTL|
SET K F GET PXAT T|SET K F EX|STRLEN K|GETRANGE K N N|SETRANGE K 3 F|SET K F NX XX|HSET K F F|
HSET K F F F F|HSET K F|HGET K F|HEXISTS K F|HDEL K F F|HLEN K|HGETALL K|HKEYS K|HINCRBY K F N|
ZADD K N F|ZADD K N F N F|ZADD K NX N F|ZADD K N|ZREM K F F|ZCARD K|ZSCORE K F|ZRANK K F|
ZREVRANK K F|ZCOUNT K N N|ZPOPMIN K|ZRANGE K N N|ZRANGE K N N WITHSCORES|
ZRANGEBYSCORE K N N WITHSCORES|ZRANGEBYSCORE K -inf N LIMIT 0 1|ZREVRANGEBYSCORE K N N LIMIT 0 N|
EXISTS K K|DEL K|TYPE K|PTTL K|PEXPIRETIME K|EXPIRE K M|PEXPIRE K M|PEXPIREAT K T|PEXPIREAT K 1|
EXPIRE K M NX|PEXPIRE K M XX GT|PEXPIRE K M GT|PEXPIREAT K T LT|PEXPIRE K M NX GT|
PEXPIRE K M LT GT|PEXPIRE K M x|
PERSIST K|DBSIZE|RENAME K K|COPY K K|COPY K K REPLACE|SCAN 0 COUNT 1000 MATCH nosuch*|SCAN x|
SCAN 0 BAD|KEYS nosuch*|FLUSHALL BAD|PUBLISH C F|SPUBLISH C F|PUBSUB NUMSUB C C|
PUBSUB SHARDNUMSUB C|PUBSUB CHANNELS *c0|PUBSUB NUMPAT|PUBSUB BAD|PING|PING F|PING F F|ECHO F|
SELECT 0|SELECT 99|SELECT x|NOSUCH K F|WAIT 0 0|WAIT x y|WAIT 1 1|ROLE|CLIENT SETNAME F|
CLIENT SETNAME sim|CLIENT NOSUCH|CLIENT KILL ID 9999|CLIENT KILL TYPE x|ASKING|CLUSTER SLOTS|
CONFIG GET maxmemory|CONFIG SET nosuch x|CONFIG SET maxmemory x|ACL WHOAMI|
ACL SETUSER bad nonsense|ACL SETUSER bad +nosuch|SCRIPT LOAD bad(|EVALSHA x 0|EVAL x|EVAL x -1|
EVAL x 9 a|SCRIPT NOSUCH|SCRIPT FLUSH BAD|AUTH a b|AUTH x|HELLO 9|EXEC|GET|SET K|ZADD K XX N F|
RPUSH K F""".replace("\n", "").split("|")


class Wrong(Exception):
    """The two servers answered differently."""


def encode(words: list) -> bytes:
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class Peer:
    """A connection; answers are kept as they are."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.data = b""

    def line(self, at: int) -> int:
        while (end := self.data.find(b"\r\n", at)) < 0:
            self.more()
        return end + 2

    def more(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise EOFError
        self.data += more

    def answer_from(self, at: int) -> int:
        """Return where the answer that begins at this position ends."""
        end = self.line(at)
        kind, number = self.data[at : at + 1], self.data[at + 1 : end - 2]
        if kind == b"$" and int(number) >= 0:
            end += int(number) + 2
            while len(self.data) < end:
                self.more()
        elif kind in b"*>":
            for _ in range(int(number)):
                end = self.answer_from(end)
        return end

    def answer(self) -> bytes:
        end = self.answer_from(0)
        taken, self.data = self.data[:end], self.data[end:]
        return taken

    def ask(self, *words) -> bytes:
        self.socket.sendall(encode(list(words)))
        return self.answer()


class Side:
    """One of the two servers, and its three clients."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connect()

    def connect(self) -> None:
        self.me, self.other, self.listener = (Peer(self.path) for _ in range(3))

    def begin(self) -> None:
        for peer in (self.me, self.other, self.listener):
            peer.socket.close()
        self.connect()
        while self.me.ask("PUBSUB", "CHANNELS") != b"*0\r\n":
            time.sleep(0.001)  # the server has not noticed the closed connection yet
        for words in (
            ["REPLICAOF", "NO", "ONE"],
            ["CONFIG", "SET", "maxmemory", "0"],
            ["CONFIG", "SET", "min-replicas-to-write", "0"],
            ["CONFIG", "SET", "hash-max-listpack-value", "10000"],  # so that fields have an order
            ["SCRIPT", "FLUSH"],
            ["FLUSHALL"],
            ["ACL", "DELUSER", "u", "bad"],
            ["ACL", "SETUSER", "u", "on", "nopass", "~*", "&*", "+@all"],
        ):
            self.me.ask(*words)
        self.other.ask("AUTH", "u", "x")
        self.listener.ask("SUBSCRIBE", f"hf:{CLIENTS[0]}")

    def heard(self) -> bytes:
        """Return the bytes that the listener received."""
        self.listener.socket.sendall(encode(["PING"]))
        told = b""
        while b"pong" not in (one := self.listener.answer()).lower():
            told += one
        return told

    def fences(self) -> dict[str, str]:
        """Return the fence of each hold, by the hold's id."""
        if self.me.ask("TYPE", LOCK.K) != b"+hash\r\n":
            return {}
        fields = re.findall(rb"\$\d+\r\n(.*)\r\n", self.me.ask("HGETALL", LOCK.K))
        texts = [field.decode() for field in fields]
        found = {}
        for name, value in zip(texts[::2], texts[1::2], strict=True):
            if name == "hf1":
                found[value[:32]] = value[33:49]
            elif len(name) == 49:
                found[name[1:33]] = name[33:]
            elif len(name) == 33:
                found[name[1:]] = value[1:17]
        return found


LOOK = """local function get(...) local v = redis.pcall(...) return v end
return {get('HGETALL', KEYS[1]), get('GET', KEYS[2]), get('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'),
get('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES'), get('GET', KEYS[5]), redis.call('PTTL', KEYS[1]),
redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[4])}"""


class Run:
    def __init__(self, seed: int, sides: list[Side], clock: Clock) -> None:
        self.random, self.seed, self.sides, self.log = random.Random(seed), seed, sides, []
        self.clock = clock
        for side in sides:
            side.begin()
        self.kind = self.random.choice(["x", "xs", "ox", "s"])
        self.serial = 0
        self.now = self.clock.now()

    # ------------------------------------------------------------- Comparing

    def plain(self, answer: bytes) -> bytes:
        """Return the answer without times near now, in seconds, ms and µs."""
        # The end of a dead id is ten minutes ahead, that of a lease a day, where the first digits
        # differ.
        aheads = (-60, 0, 60, 660, *range(10000, 120000, 5000))
        for start in {str(int(self.now + ahead))[:6].encode() for ahead in aheads}:
            for more in (10, 7, 4):
                answer = re.sub(rb"%s\d{%d}" % (start, more), b"T%d" % more, answer)
        return answer

    def same(self, one: bytes, two: bytes) -> bool:
        ones, twos = self.plain(one).split(b"\r\n"), self.plain(two).split(b"\r\n")
        return len(ones) == len(twos) and all(map(self.alike, ones, twos))

    @staticmethod
    def alike(one: bytes, two: bytes) -> bool:
        if one == two:
            return True
        times = [re.fullmatch(rb":(-?\d+)", text) for text in (one, two)]
        if not all(times):
            return False
        a, b = (int(text[1]) for text in times)
        return abs(a - b) < 1000 and min(a, b) > 1000

    def compare(self, what: str, answers: list[bytes]) -> None:
        self.log.append((what, answers[0][:300]))
        if not self.same(*answers):
            ones, twos = (self.plain(answer).split(b"\r\n") for answer in answers)
            unlike = [(a, b) for a, b in zip(ones, twos, strict=False) if not self.alike(a, b)]
            raise Wrong(
                f"seed {self.seed}: {what}\n  redis-server   {answers[0]!r}\n"
                f"  the simulation {answers[1]!r}\n  unlike {unlike}\n  before:\n"
                + "\n".join(map(str, self.log[-8:]))
            )

    def ask(self, *words, who: str = "me") -> None:
        answers = []
        for side in self.sides:
            peer = getattr(side, who)
            peer.socket.sendall(encode(list(words)))
            while words[0] == "WAIT" and not select.select([peer.socket], [], [], 0.01)[0]:
                self.clock.pass_ms(1)
            answers.append(peer.answer())
        self.compare(f"{who}: {' '.join(map(str, words))[:400]}", answers)

    # ----------------------------------------------------------------- Steps

    def word(self, form: str) -> str:
        choices = {"K": NAMES, "F": FIELDS, "N": NUMBERS, "M": MS, "C": CHANNELS}
        if form == "T":
            return str(int((self.now + 1000) * 1000))
        return self.random.choice(choices[form]) if form in choices else form

    def command(self) -> list[str]:
        return [self.word(form) for form in self.random.choice(FORMS).split(" ")]

    def step_command(self) -> None:
        self.ask(*self.command(), who=self.random.choice(["me", "me", "me", "other"]))

    def step_snippet(self) -> None:
        keys = [self.random.choice(NAMES)]
        text = self.random.choice(SNIPPETS)
        self.ask("EVAL", text, 1, *keys, *CLIENTS, who=self.random.choice(["me", "me", "other"]))

    def step_multi(self) -> None:
        self.ask("MULTI")
        for _ in range(self.random.randrange(4)):
            words = self.command()
            if words[0] not in ("EXEC", "WAIT", "AUTH", "HELLO"):
                self.ask(*words)
        self.ask("EXEC")

    def step_trouble(self) -> None:
        """Let the server be full, a replica or without enough replicas; try scripts; end the
        trouble."""
        name, bad, good = self.random.choice(
            [
                ("maxmemory", "1", "0"),
                ("min-replicas-to-write", "1", "0"),
                ("replica", ("127.0.0.1", "1"), ("NO", "ONE")),
            ]
        )
        words = ["REPLICAOF"] if name == "replica" else ["CONFIG", "SET", name]
        self.ask(*words, *([bad] if isinstance(bad, str) else bad))
        for _ in range(3):
            self.random.choice([self.step_command, self.step_snippet, self.step_script])()
        self.ask(*words, *([good] if isinstance(good, str) else good))

    def step_user(self) -> None:
        rule = self.random.choice(
            ["-set", "-hset", "-publish", "-pubsub|numsub", "-time", "resetchannels", "resetkeys"]
        )
        self.ask("ACL", "SETUSER", "u", rule)
        for _ in range(3):
            self.ask(*self.command(), who="other")
        self.ask("EVAL", self.random.choice(SNIPPETS), 1, "a", *CLIENTS, who="other")
        self.script(who="other")
        self.ask("ACL", "SETUSER", "u", "~*", "&*", "+@all")

    def step_listen(self) -> None:
        channel = f"hf:{self.random.choice(CLIENTS)}"
        form = self.random.choice(["", "", "P", "S"])
        what = self.random.choice(["SUBSCRIBE", "SUBSCRIBE", "UNSUBSCRIBE"])
        self.ask(form + what, channel[:5] + "*" if form == "P" else channel, who="listener")
        self.ask(f"{form}PUBLISH" if form == "S" else "PUBLISH", channel, "text")

    def step_script(self) -> None:
        self.script()

    # ------------------------------------------------------------ Our scripts

    def script(self, who: str = "me") -> None:
        r, pick = self.random, self.random.choice
        name = pick(DRAWN)
        hold, client = f"a{r.randrange(6):031x}", pick(CLIENTS)
        owner, lease = pick(["ann", "ben"]), pick(["30000", "100000", "0", "5", "x"])
        mode = pick({"x": ["x"], "xs": ["x", "s0"], "ox": ["o", "x"], "s": ["s0", "s2"]}[self.kind])
        waits = member(hold, client, mode, int(lease) if lease.isdigit() else 0, owner)
        keys = LOCK.all
        dead = LOCK.dead(hold)
        each = [side.fences() for side in self.sides]

        def fences(form: str) -> list[str]:
            return [form + found.get(hold, "0" * 16) for found in each]

        words: list = []
        if name == "take":
            keys, words = [LOCK.K, LOCK.F], ["h" + hold, owner, lease, "0" * 16]
        elif name == "wait":
            keys, words = [LOCK.K, LOCK.Q], [waits, owner]
        elif name == "acquire":
            text = pick([waits, waits, ""])
            words = [pick(["0", "1"]), hold, owner, lease, mode, pick(["0", "1"]), text]
            words += [pick(["0", "0", "7"])]
            keys = [*keys, dead]
        elif name == "release":
            words = [hold, fences("")]
            if pick([0, 1]):
                bury = pick(["0", "1"])
                keys = [*keys, dead] if bury == "1" else keys
                words += [bury, pick(["", waits])]
                words += pick([[], ["20000", "result"]]) if mode == "o" else []
        elif name == "renew":
            keys = [LOCK.K, LOCK.S]
            words = [fences(hold), lease, pick("0123"), pick(["0", "2"])]
        elif name == "claim":
            keys, words = [LOCK.K, LOCK.F, LOCK.S], [client, hold, lease, pick("01")]
        elif name == "cancel":
            keys, words = [*keys, dead], [hold, pick("01"), waits]
        elif name == "break":
            words = [fences(""), pick("01")]
        elif name == "leave":
            keys, words = [LOCK.K], [hold, fences("")]
        elif name == "heal":
            keys, words = [LOCK.K], [lease]
        elif name == "inspect":
            keys, words = [LOCK.K, LOCK.Q, LOCK.S, LOCK.R], ["0", "10"]
        elif name == "selftest":
            keys, words = [LOCK.K], [f"hf:{client}"]
        else:
            keys, words = [LOCK.K], [LOCK.F, "other"]
        answers = []
        for n, side in enumerate(self.sides):
            mine = [word[n] if isinstance(word, list) else word for word in words]
            answers.append(getattr(side, who).ask("EVAL", TEXTS[name], len(keys), *keys, *mine))
        self.compare(f"{who}: {name} {keys} {words}", answers)
        self.clock.pass_ms(3)  # both servers order the two ends alike

    def step(self) -> None:
        steps = {
            self.step_script: 12,
            self.step_command: 12,
            self.step_snippet: 3,
            self.step_listen: 1,
            self.step_multi: 1,
            self.step_trouble: 0.5,
            self.step_user: 0.5,
        }
        self.now = self.clock.now()
        self.random.choices(list(steps), list(steps.values()))[0]()
        self.compare("the listener hears", [side.heard() for side in self.sides])
        self.ask("EVAL", LOOK, 5, *LOCK.all)
        if self.random.random() < 0.1:
            self.ask("DEL", *LOCK.all)


@contextlib.contextmanager
def servers(simulated: str) -> Iterator[tuple[list[Side], Clock]]:
    """Start a real and a simulated server, on sockets in a folder, with one clock."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast."))
    paths = [str(folder / name) for name in ("real", "sim")]
    common = ["--port", "0", "--save", "", "--dir", str(folder)]
    clock = Clock(folder)
    processes = [
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, *common, "--unixsocket", path],
            stdout=subprocess.DEVNULL,
            env=clock.environment,
        )
        for program, path in zip(("redis-server", simulated), paths, strict=True)
    ]
    try:
        until = time.time() + 60
        while not all(map(os.path.exists, paths)):
            if time.time() > until:
                raise SystemExit("a server does not start")
            time.sleep(0.05)
        time.sleep(0.05)  # it listens only after its socket exists
        yield [Side(path) for path in paths], clock
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--seeds", type=int, default=100000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args()
    done, until = 0, time.time() + args.seconds
    with servers(args.server) as (sides, clock):
        for seed in range(args.first, args.first + args.seeds):
            if time.time() > until:
                break
            run = Run(seed, sides, clock)
            for _ in range(args.steps):
                run.step()
            done += 1
    print(f"{done} seeds of {args.steps} steps")


if __name__ == "__main__":
    main()
