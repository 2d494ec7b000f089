"""Where the locks of run.py are stored: real servers, and the faults that each can suffer."""

from __future__ import annotations

import contextlib
import mmap
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import redis

SECOND = 1_000_000_000
LONGEST_LEASE = SECOND
PDEATH = ["setpriv", "--pdeathsig", "KILL"]  # no server outlives this program
SLOTS = 16384


def now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def soon(what: Callable[[], object], seconds: float) -> bool:
    """Wait for it, at most that time, and return whether it happened."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError):
            if what():
                return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def until(what: Callable[[], object], is_what: str) -> None:
    """Wait for it, but not for ever."""
    if not soon(what, 60):
        sys.exit(f"histories: waited in vain: {is_what}")


def free_port() -> int:
    """Find a port that the system does not give to connections, so that it is still free for a
    restart.

    The port of a cluster's bus, 10,000 above it, is free as well.
    """
    while True:
        port = random.randrange(16000, 18000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10000))
            return port


class Server:
    """A redis-server that can be killed and started again."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None):
        self.port = free_port()
        folder.mkdir()
        self._command = [*PDEATH, "redis-server", *options, "--port", str(self.port)]
        self._command += ["--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._command += ["--logfile", str(folder / "log")]
        self._environment = {**os.environ, **(environment or {})}
        self.redis = redis.Redis("127.0.0.1", self.port, retry=None, socket_timeout=5)
        self.start()

    def start(self, *more: str) -> None:
        self.process = subprocess.Popen(
            [*self._command, *more], stdin=subprocess.DEVNULL, env=self._environment
        )
        until(self._answers, f"redis-server on port {self.port}")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            sys.exit("histories: redis-server does not start")
        return self.redis.ping()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def role(self) -> list:
        return self.redis.execute_command("ROLE")

    def leads(self) -> bool:
        return self.role()[0] == b"master"

    def follows(self) -> bool:
        """Return whether it is a replica with all data."""
        role = self.role()
        return role[0] == b"slave" and role[3] == b"connected"

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


class Proxy:
    """Stands between some workers and the server, and carries their data badly."""

    def __init__(self, port: int, chance: random.Random) -> None:
        self._to, self._chance = port, chance
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._mutex = threading.Lock()
        self.delay = 0.0  # of the next piece of each unlucky connection
        self.shut = 0.0  # the share of the connections on which nothing arrives until it is 0 again
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listening.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._mutex:
                self._pairs.add((near, far))
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(*ends, (near, far)), daemon=True).start()

    def _carry(self, here: socket.socket, there: socket.socket, pair: tuple) -> None:
        luck = hash(pair) % 1000 / 1000  # the same for both directions
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                while luck < self.shut:
                    time.sleep(0.01)
                if self.delay and self._chance.random() < 0.3:
                    time.sleep(self.delay)
                if self._chance.random() < 0.0005:
                    there.sendall(data[: self._chance.randrange(len(data))])
                    break  # cut in the middle
                there.sendall(data)
        self._end(pair)

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        with self._mutex:
            self._pairs.discard(pair)
        for end in pair:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self) -> None:
        """Cut some of the connections."""
        with self._mutex:
            pairs = list(self._pairs)
        for pair in self._chance.sample(pairs, min(3, len(pairs))):
            self._end(pair)


class Deployment:
    """Servers, and what may happen to them; a fault ends when they serve again."""

    urls: tuple[str, str]  # every other worker gets the second

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.servers: list[Server] = []
        self.pauses: list[tuple[str, int, int]] = []  # in the form for check()
        self.losses: list[tuple[int, int]] = []
        self.faults: dict[str, tuple[int, Callable[[], None]]] = {
            # name: its frequency, and the fault
            "connections killed": (4, self._kill_connections),
            "scripts flushed": (1, lambda: self.leader().redis.script_flush()),
            "server paused": (1, self._pause_server),
            "server stopped": (1, self._stop_server),
        }

    def leader(self) -> Server:
        """Choose one of the servers that serve."""
        return self.chance.choice([server for server in self.servers if server.leads()])

    def serves(self, key: str) -> redis.Redis:
        """Return the server that has the key."""
        return self.servers[0].redis

    def serve(self, key: str) -> list[redis.Redis]:
        """Return all servers that have the key."""
        return [self.serves(key)]

    def look(self) -> None:
        """Check whether something happened that was not ordered."""

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Note a time in which no client can expect an answer."""
        since = now()
        yield
        self.pauses.append(("", since, now() + SECOND // 2))

    @contextlib.contextmanager
    def loss(self) -> Iterator[None]:
        """Note that confirmed holds may be forgotten: their leases end one by one."""
        since = now()
        with self.pause():
            yield
        self._forgive(since)

    def _forgive(self, since: int) -> None:
        self.losses.append((since, now() + LONGEST_LEASE + SECOND // 10))

    def close(self) -> None:
        for server in self.servers:
            server.kill()

    def _kill_connections(self) -> None:
        at = self.leader().redis
        clients = [client for client in at.client_list() if client["name"] == "holdfast"]
        for client in self.chance.sample(clients, min(5, len(clients))):
            at.client_kill_filter(_id=client["id"])

    def _pause_server(self) -> None:
        ms = self.chance.choice((100, 400))
        with self.pause():
            self.leader().redis.client_pause(ms)
            time.sleep(ms / 1000)

    def _stop_server(self) -> None:
        with self.pause(), self.leader().stopped():
            time.sleep(self.chance.choice((0.1, 0.3)))


class Single(Deployment):
    """One server that keeps what it confirmed, even over a kill -9."""

    options: tuple[str, ...] = ("--appendonly", "yes", "--appendfsync", "always")

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.servers.append(Server(folder / "server", *self.options, environment=self._preload()))
        self._proxy = Proxy(self.servers[0].port, random.Random(chance.random()))
        ports = self.servers[0].port, self._proxy.port
        self.urls = tuple(f"redis://127.0.0.1:{port}" for port in ports)
        self.faults |= {
            "connections cut": (2, self._proxy.cut),
            "bytes delayed": (2, self._delay),
            "server restarted": (1, self._restart),
            "server stopped": (1, self._stop_server),
        }

    def _preload(self) -> dict[str, str]:
        return {}

    def _delay(self) -> None:
        self._proxy.delay = self.chance.choice((0.01, 0.1, 0.6))
        with self.pause():
            time.sleep(0.3)
            self._proxy.delay = 0

    def _stop_server(self) -> None:
        with self.pause(), self.servers[0].stopped():
            time.sleep(self.chance.choice((0.1, 0.6, 1.5)))

    def _restart(self) -> None:
        with self.pause():
            self.servers[0].kill()
            time.sleep(self.chance.choice((0, 0.3)))
            self.servers[0].start()


class Memory(Single):
    """One server that keeps nothing: it starts empty, and is emptied now and then."""

    options = ()

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.faults["data flushed"] = (2, self._flush)

    def _flush(self) -> None:
        with self.loss():
            self.servers[0].redis.flushall()

    def _restart(self) -> None:
        with self.loss():
            super()._restart()


class Clock(Single):
    """One server whose clock steps: tests/preload/step.c."""

    library: Path  # the built library

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.faults["clock stepped"] = (4, self._step)

    def _preload(self) -> dict[str, str]:
        path = self.folder / "clock"
        path.write_bytes(bytes(8))
        with path.open("r+b") as file:
            self._seconds = mmap.mmap(file.fileno(), 8)
        return {"LD_PRELOAD": str(self.library), "HOLDFAST_TEST_CLOCK": str(path)}

    def _step(self) -> None:
        """Step forward, which ends leases early, or back, which ends them late."""
        before = int.from_bytes(self._seconds[:], sys.byteorder, signed=True)
        to = self.chance.choice([at for at in (-2, 0, 1, 3) if at != before])
        with self.loss() if to > before else contextlib.nullcontext():
            self._seconds[:] = to.to_bytes(8, sys.byteorder, signed=True)


class Replicated(Deployment):
    """Masters and replicas; their roles may change, also without an order."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.faults |= {
            "failover": (2, self._fail_over),
            "master killed": (1, self._kill_master),
            "replica stopped": (1, self._stop_replica),
        }

    def look(self) -> None:
        """Check whether there was a failover that was not ordered, as on a busy machine."""
        since, leaders = self._seen
        if self._leaders() != leaders:
            self._settle()
            self._forgive(since)
            self.pauses.append(("", since, now()))
        self._seen = now(), self._leaders()

    def _leaders(self) -> set[int]:
        found = set()
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                if server.leads():
                    found.add(server.port)
        return found

    def _settle(self) -> None:
        """Wait until all servers have their roles and data."""
        raise NotImplementedError

    def _fail_over(self) -> None:
        raise NotImplementedError

    def _rejoin(self, server: Server, new: set[int]) -> None:
        raise NotImplementedError

    def _kill_master(self) -> None:
        master = self.leader()
        old, since = self._leaders(), now()
        with self.pause():
            master.kill()
            until(lambda: self._leaders() - old, "a new master")
        self._rejoin(master, self._leaders() - old)
        self._settle()  # afterwards only: a second failover may follow at once
        self._forgive(since)

    def _stop_replica(self) -> None:
        replicas = [server for server in self.servers if not server.leads()]
        with self.chance.choice(replicas).stopped():
            time.sleep(self.chance.choice((0.1, 0.3)))


class Sentinel(Replicated):
    """A master and two replicas, and three sentinels."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        quick = ("--repl-diskless-sync-delay", "0")
        for number in range(3):
            follow = ("--replicaof", f"127.0.0.1 {self.servers[0].port}") if number else ()
            self.servers.append(Server(folder / f"node-{number}", *quick, *follow))
        self._sentinels = []
        for number in range(3):
            conf = folder / f"{number}.conf"
            conf.write_text(
                f"sentinel monitor mine 127.0.0.1 {self.servers[0].port} 2\n"
                "sentinel down-after-milliseconds mine 800\n"
                "sentinel failover-timeout mine 3000\n"
            )
            self._sentinels.append(Server(folder / f"sentinel-{number}", str(conf), "--sentinel"))
        places = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self._sentinels)
        self.urls = (f"redis+sentinel://{places}/mine",) * 2
        self._settle()
        self._seen = now(), self._leaders()
        self.faults["sentinel killed"] = (1, self._kill_sentinel)

    def close(self) -> None:
        for sentinel in self._sentinels:
            sentinel.kill()
        super().close()

    def serves(self, key: str) -> redis.Redis:
        return self.leader().redis

    def _settled(self) -> bool:
        leaders = self._leaders()
        told = [sentinel.redis.sentinel_master("mine") for sentinel in self._sentinels]
        return (
            len(leaders) == 1
            and all(server.follows() for server in self.servers if server.port not in leaders)
            and all(each["port"] in leaders for each in told)
            and all(each["num-slaves"] >= 2 for each in told)
            and all(each["num-other-sentinels"] == 2 for each in told)
        )

    def _settle(self) -> None:
        until(self._settled, "all of Sentinel's")
        self._seen = now(), self._leaders()

    def _fail_over(self) -> None:
        old, since = self._leaders(), now()
        with self.pause():
            self.chance.choice(self._sentinels).redis.sentinel_failover("mine")
            until(lambda: self._leaders() - old and len(self._leaders()) == 1, "a new master")
        self._settle()
        self._forgive(since)

    def _rejoin(self, server: Server, new: set[int]) -> None:
        server.start("--replicaof", "127.0.0.1", str(*new))

    def _kill_sentinel(self) -> None:
        sentinel = self.chance.choice(self._sentinels)
        since, leaders = self._seen
        sentinel.kill()
        time.sleep(0.3)
        sentinel.start()
        self._settle()
        if self._leaders() != leaders:
            self._forgive(since)


class Cluster(Replicated):
    """Three masters with a replica each."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        for number in range(6):
            self.servers.append(
                Server(folder / f"node-{number}", *options, "--repl-diskless-sync-delay", "0")
            )
        first, masters = self.servers[0], self.servers[:3]
        for number, server in enumerate(self.servers):
            self._say(server, "SET-CONFIG-EPOCH", number + 1)
            if number < 3:
                slots = range(number * SLOTS // 3, (number + 1) * SLOTS // 3)
                self._say(server, "ADDSLOTS", *slots)
            if number > 0:
                self._say(first, "MEET", "127.0.0.1", server.port)
        for master, replica in zip(masters, self.servers[3:], strict=True):
            name = self._say(master, "MYID")
            until(lambda: name in self._say(replica, "NODES"), "that they meet")  # noqa: B023
            until(lambda: self._say(replica, "REPLICATE", name), "a replica")  # noqa: B023
        self._settle()
        places = ",".join(f"127.0.0.1:{server.port}" for server in self.servers[:3])
        self.urls = (f"redis+cluster://{places}",) * 2
        self.faults["slot moved"] = (6, self._move_slot)

    @staticmethod
    def _say(server: Server, *words: object) -> str:
        told = server.redis.execute_command("CLUSTER " + str(words[0]), *words[1:])
        return told.decode() if isinstance(told, bytes) else str(told)

    def serves(self, key: str) -> redis.Redis:
        for server in self.servers:
            with contextlib.suppress(redis.RedisError):
                if server.leads() and server.redis.exists(key) >= 0:
                    return server.redis
        sys.exit(f"histories: no node serves {key}")

    def _settled(self) -> bool:
        leaders = self._leaders()
        rest = [server for server in self.servers if server.port not in leaders]
        states = [server.redis.execute_command("CLUSTER INFO") for server in self.servers]
        nodes = [server.redis.execute_command("CLUSTER NODES") for server in self.servers]
        return (
            len(leaders) == 3
            and all(server.follows() for server in rest)
            and all(state["cluster_state"] == "ok" for state in states)
            and all("fail" not in node["flags"] for each in nodes for node in each.values())
        )

    def _settle(self) -> None:
        until(self._settled, "all of the Cluster")
        self._seen = now(), self._leaders()

    def _fail_over(self) -> None:
        """Fail over as an operator does: the replica has all data, so no hold may be lost."""
        replicas = [server for server in self.servers if not server.leads()]
        replica = self.chance.choice(replicas)
        with self.pause():
            self._say(replica, "FAILOVER")
            soon(replica.leads, 10)  # or never: it gives up after 5 s, and changes nothing
        self._settle()

    def _rejoin(self, server: Server, new: set[int]) -> None:
        server.start()

    def _move_slot(self) -> None:
        """Move the slot of a lock, one key at a time; no hold may be lost."""
        key = f"job:{self.chance.randrange(4)}"
        slot = self.servers[0].redis.execute_command("CLUSTER KEYSLOT", key)
        here = next(s for s in self.servers if s.redis is self.serves(key))
        masters = [server for server in self.servers if server.leads()]
        there = self.chance.choice([server for server in masters if server is not here])
        names = {server: self._say(server, "MYID") for server in (here, there)}
        with self.pause():
            self._say(there, "SETSLOT", slot, "IMPORTING", names[here])
            self._say(here, "SETSLOT", slot, "MIGRATING", names[there])
            while keys := here.redis.execute_command("CLUSTER GETKEYSINSLOT", slot, 1):
                here.redis.execute_command("MIGRATE", "127.0.0.1", there.port, keys[0], 0, 1000)
                time.sleep(0.02 * self.chance.random())
            for server in (there, here, *masters):
                self._say(server, "SETSLOT", slot, "NODE", names[there])


class Quorum(Deployment):
    """Several masters that know nothing of each other, and forget everything when they restart.

    All workers reach each master through its proxy, because a master must have the same name for
    all
    clients. At most a minority is in trouble, so there is no pause and no loss.
    """

    count = 3
    quarantine = 3

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.servers += [Server(folder / f"master-{number}") for number in range(self.count)]
        self._ways = [Proxy(server.port, random.Random(chance.random())) for server in self.servers]
        places = ",".join(f"127.0.0.1:{way.port}" for way in self._ways)
        self.urls = (f"redis+quorum://{places}?quarantine={self.quarantine}",) * 2
        self.faults = {
            "connections killed": (4, self._kill_connections),
            "scripts flushed": (1, lambda: self.leader().redis.script_flush()),
            "connections cut": (2, lambda: self.chance.choice(self._ways).cut()),
            "bytes delayed": (2, self._delay),
            "masters stopped": (2, self._stop_some),
            "masters cut off": (2, lambda: self._shut(1.0)),
            "masters cut off from some": (3, lambda: self._shut(0.5)),
            "master restarted, empty": (4, self._restart),
        }
        self._grow_old()

    def serve(self, key: str) -> list[redis.Redis]:
        return [server.redis for server in self.servers]

    def _some(self, of: list) -> list:
        return self.chance.sample(of, self.chance.randint(1, (self.count - 1) // 2))

    def _young(self) -> int:
        ages = [server.redis.info("server")["uptime_in_seconds"] for server in self.servers]
        return sum(age <= self.quarantine for age in ages)

    def _grow_old(self) -> None:
        until(lambda: self._young() == 0, "the end of the quarantine")

    def _delay(self) -> None:
        for way in self._some(self._ways):
            way.delay = self.chance.choice((0.01, 0.1, 0.6))
        time.sleep(0.3)
        for way in self._ways:
            way.delay = 0

    def _shut(self, share: float) -> None:
        for way in self._some(self._ways):
            way.shut = share
        time.sleep(self.chance.choice((0.1, 0.6, 1.5)))
        for way in self._ways:
            way.shut = 0

    def _stop_some(self) -> None:
        with contextlib.ExitStack() as stack:
            for server in self._some(self.servers):
                stack.enter_context(server.stopped())
            time.sleep(self.chance.choice((0.1, 0.6, 1.5)))

    def _restart(self) -> None:
        """Restart a master, but not while another one that is needed is in quarantine."""
        if self._young() >= (self.count - 1) // 2:
            return
        server = self.chance.choice(self.servers)
        server.kill()
        time.sleep(self.chance.choice((0, 0.3)))
        server.start()


class Quorum5(Quorum):
    """Of five masters two may be in trouble."""

    count = 5


DEPLOYMENTS: dict[str, type[Deployment]] = {
    "single": Single,
    "memory": Memory,
    "clock": Clock,
    "sentinel": Sentinel,
    "cluster": Cluster,
    "quorum3": Quorum,
    "quorum5": Quorum5,
}
