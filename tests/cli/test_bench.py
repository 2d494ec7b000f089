"""`holdfast bench`: its findings about a server, and the keys that it leaves there."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from conftest import PATIENT, Program, Server, until

BRIEF = ("--seconds", "200ms")
Lines = list[dict[str, Any]]


def objects(text: str) -> Lines:
    return [json.loads(line) for line in text.splitlines()]


def settings(lines: Lines) -> dict[str, tuple[str, str]]:
    found = [line for line in lines if line["kind"] == "setting"]
    return {line["subject"]: (line["level"], line["text"]) for line in found}


def measurements(lines: Lines) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in lines if line["kind"] == "measurement"}


@pytest.fixture
def good(own_server: Server, cli: Program) -> Iterator[redis.Redis]:
    """Return a server with good settings, and let the program use it."""
    cli.environment["HOLDFAST_URL"] = own_server.url + PATIENT
    with redis.Redis.from_url(own_server.url) as connection:
        connection.config_set("appendonly", "yes")
        connection.config_set("tcp-keepalive", 60)
        yield connection


def assert_all_measured(measured: dict[str, dict[str, Any]]) -> None:
    assert list(measured) == ["round-trip", "pair", "handoff", "renewal"]
    for name, one in measured.items():
        assert one["level"] in ("good", "note"), one
        assert one["count"] > 0
        assert one["per_second"] > 0
        assert 0 < one["p50_us"] <= one["p95_us"] <= one["p99_us"] <= one["max_us"]
        assert ("round_trips" in one) == (name != "round-trip")
    assert measured["pair"]["expected_round_trips"] == 2
    trips = measured["pair"]["p50_us"] / measured["round-trip"]["p50_us"]
    assert measured["pair"]["round_trips"] == pytest.approx(trips, rel=0.01, abs=0.1)


def assert_soon_gone(raw: redis.Redis, prefix: bytes = b"holdfast-bench:") -> None:
    """Check that no lock is left, and soon nothing but the memory of a handoff."""
    for key in raw.scan_iter():
        assert prefix in key
        assert key.endswith((b":hf1:f", b":hf1:d")), key
        assert raw.ttl(key) != -1
    until(lambda: all(prefix + b"handoff" in key for key in raw.scan_iter()))


def test_a_server_that_is_set_up_well_passes(good: redis.Redis, cli: Program) -> None:
    done = cli("bench", "--json", *BRIEF)
    assert done.returncode == 0, done.stdout
    lines = objects(done.stdout)
    found = settings(lines)
    assert all(level != "warning" for level, _ in found.values())
    assert found["queue"] == ("good", "waiters are notified of their grants")
    assert found["version"][0] == found["permissions"][0] == "good"
    assert_all_measured(measurements(lines))
    assert_soon_gone(good)


def test_it_says_before_what_it_will_do(good: redis.Redis, cli: Program) -> None:
    done = cli("bench", "--name", "mine", "--threads", 3, *BRIEF)
    assert done.returncode == 0, done.stdout
    assert "for about 2 s with 3 threads" in done.stderr
    assert "only the locks mine:..." in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 100
    assert_soon_gone(good, b"mine:")


@pytest.mark.parametrize(
    ("prefix", "shown"), [(b"caf\xc3\xa9", "caf\u00e9:queue"), (b"caf\xe9", "caf\ufffd:queue")]
)
def test_its_json_is_ascii_whatever_the_names(
    good: redis.Redis, cli: Program, prefix: bytes, shown: str
) -> None:
    good.set(prefix + b":queue", "theirs")
    done = cli("bench", "--json", "--name", os.fsdecode(prefix), *BRIEF, encoding="latin-1")
    assert done.stdout.isascii()
    assert shown in settings(objects(done.stdout))["queue"][1]


def test_people_get_two_tables(good: redis.Redis, cli: Program) -> None:
    done = cli("bench", *BRIEF)
    assert "\nSettings\n  good     version " in done.stdout
    assert "\nMeasurements " in done.stdout
    assert "expected: 2 and the server's work" in done.stdout


def plan_of(cli: Program, wish: str) -> dict[str, Any]:
    done = cli("bench", "--json", "--plan", wish, *BRIEF)
    assert done.returncode == 0, done.stdout
    lines = objects(done.stdout)
    assert {line["threads"] for line in lines if line["kind"] == "measurement"} == {8}
    assert lines[-1]["kind"] == "plan"
    return lines[-1]


def test_a_plan_follows_from_what_was_measured(good: redis.Redis, cli: Program) -> None:
    # With ten waiters the load rounds to zero.
    plan = plan_of(cli, "locks=1000,hosts=200,rate=50,waiters=150,names=5000,lease=30s")
    assert (plan["locks"], plan["hosts"], plan["rate"]) == (1000, 200, 50)
    assert (plan["waiters"], plan["names"], plan["lease_ms"]) == (150, 5000, 30000)
    parts = plan["acquire_percent"] + plan["renew_percent"] + plan["wait_percent"]
    assert plan["load_percent"] == pytest.approx(parts, abs=0.05)
    assert min(plan["acquire_percent"], plan["renew_percent"], plan["wait_percent"]) > 0
    assert plan["connections"] == 600
    # 240 bytes for each lock, 180 for a name, 290 for a waiter, 20,000 for a connection
    assert plan["memory_bytes"] == plan["masters"] * 600 * 20000 + 240000 + 900000 + 43500


def test_a_plan_for_a_million_locks_wants_a_cluster(good: redis.Redis, cli: Program) -> None:
    plan = plan_of(cli, "locks=100000000,hosts=1000,rate=0")
    assert plan["acquire_percent"] == plan["wait_percent"] == 0
    assert plan["masters"] > 10  # a core renews some hundred thousand locks with a lease of 10 s
    assert plan["masters"] == pytest.approx(plan["load_percent"] / 50, abs=1)
    done = cli("bench", "--plan", "locks=100000000,hosts=1000,rate=0", *BRIEF)
    assert "\nPlan: 100000000 locks held at once by 1000 hosts, 0 acquisitions" in done.stdout
    assert "a Cluster of " in done.stdout
    assert "renewals are most of the load: a lease of 30 s needs a third" in done.stdout


def test_check_measures_nothing_and_writes_nothing(good: redis.Redis, cli: Program) -> None:
    done = cli("bench", "--check", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    lines = objects(done.stdout)
    assert measurements(lines) == {}
    assert settings(lines)["persistence"][0] == "good"
    assert good.dbsize() == 0


def test_a_server_that_evicts_is_warned_of(good: redis.Redis, cli: Program) -> None:
    good.config_set("maxmemory", "200mb")
    good.config_set("maxmemory-policy", "allkeys-lru")
    done = cli("bench", "--check", "--json")
    assert done.returncode == 1
    level, text = settings(objects(done.stdout))["eviction"]
    assert (level, "allkeys-lru" in text, "noeviction" in text) == ("warning", True, True)


def test_a_server_that_forgets_is_warned_of(good: redis.Redis, cli: Program) -> None:
    good.config_set("appendonly", "no")
    done = cli("bench", "--check")
    assert done.returncode == 1
    assert "  warning  persistence  no append-only file" in done.stdout


def as_user(raw: redis.Redis, cli: Program, *rules: str) -> None:
    rights = ("~*", "&*", "+@all", *rules)
    raw.execute_command("ACL", "SETUSER", "app", "reset", "on", ">secret", *rights)  # type: ignore[no-untyped-call]
    url = cli.environment["HOLDFAST_URL"]
    cli.environment["HOLDFAST_URL"] = url.replace("redis://", "redis://app:secret@")


def test_a_user_of_other_names_is_told_how_to_check_them(good: redis.Redis, cli: Program) -> None:
    as_user(good, cli, "resetkeys", "~app:*", "~{app:*")
    done = cli("bench", "--check")
    assert done.returncode == 1
    assert "~holdfast-bench:pair:0" in done.stdout
    assert "give that prefix: --name PREFIX" in done.stdout
    done = cli("bench", "--check", "--name", "app:")
    assert "--name PREFIX" not in done.stdout


def test_a_user_who_may_not_run_scripts_is_told_so(good: redis.Redis, cli: Program) -> None:
    as_user(good, cli, "-eval", "-evalsha")
    done = cli("bench", "--json", *BRIEF)
    assert done.returncode == 1
    lines = objects(done.stdout)
    level, text = settings(lines)["permissions"]
    assert (level, "'evalsha'" in text) == ("warning", True)
    assert settings(lines)["queue"][0] == "warning"
    assert measurements(lines)["round-trip"]["level"] == "good"
    for name in ("pair", "handoff", "renewal"):
        assert measurements(lines)[name]["level"] == "warning"
        assert "'evalsha'" in measurements(lines)[name]["text"]
    assert "secret" not in done.stdout + done.stderr


def test_a_user_who_hears_no_grants_is_told_so(good: redis.Redis, cli: Program) -> None:
    as_user(good, cli, "-subscribe")
    done = cli("bench", "--json", *BRIEF)
    assert done.returncode == 1
    lines = objects(done.stdout)
    level, text = settings(lines)["queue"]
    assert (level, "pub/sub does not reach" in text) == ("warning", True)


def test_what_the_user_may_not_ask_is_a_note(good: redis.Redis, cli: Program) -> None:
    as_user(good, cli, "-config", "-info")
    done = cli("bench", "--check", "--json")
    assert done.returncode == 0, done.stdout
    found = settings(objects(done.stdout))
    assert (found["version"][0], found["timeout"][0]) == ("note", "note")


def test_a_lock_that_somebody_else_has_is_no_outage(good: redis.Redis, cli: Program) -> None:
    good.set("holdfast-bench:queue", "theirs")
    done = cli("bench", "--json", *BRIEF)
    assert done.returncode == 1
    assert "different --name" in settings(objects(done.stdout))["queue"][1]
    assert good.get("holdfast-bench:queue") == b"theirs"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_gives_the_locks_back(
    good: redis.Redis, cli: Program, number: signal.Signals
) -> None:
    running = cli.start("bench", "--seconds", "1")
    until(lambda: good.exists("{holdfast-bench:pair:0}holdfast-bench:pair:0:hf1:f"), 30)
    running.send_signal(number)
    assert running.wait(20) == 128 + number
    assert_soon_gone(good)


def test_a_signal_that_the_caller_ignores_does_not_end_it(good: redis.Redis, cli: Program) -> None:
    """As under nohup(1)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        running = cli.start("bench", "--json", *BRIEF)
    finally:
        signal.signal(signal.SIGHUP, before)
    until(lambda: good.exists("{holdfast-bench:pair:0}holdfast-bench:pair:0:hf1:f"), 30)
    running.send_signal(signal.SIGHUP)
    out, _ = running.communicate(timeout=50)
    assert running.returncode == 0
    assert_all_measured(measurements(objects(out)))


def test_the_end_of_its_reader_ends_it_also_where_that_is_ignored(
    good: redis.Redis, cli: Program
) -> None:
    """As with `holdfast bench | head` in a systemd unit. Python ignores SIGPIPE, too."""
    running = cli.start("bench", "--json", *BRIEF, restore_signals=False)
    assert running.stdout is not None
    assert running.stdout.readline() != ""
    running.stdout.close()
    assert running.wait(50) == 128 + signal.SIGPIPE
    assert_soon_gone(good)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("frob",), "bench takes no arguments: 'frob'"),
        (("--seconds", "x"), "--seconds takes a duration"),
        (("--seconds", "1ms"), "--seconds takes 100ms to 1h"),
        (("--threads", "0"), "--threads takes a number from 1 to 256"),
        (("--name", ""), "--name takes 1 to"),
        (("--plan", "many"), "--plan takes locks=1000,hosts=20,rate=50, not 'many'"),
        (("--plan", "locks=1,hosts=1"), "--plan needs locks, hosts and rate"),
        (("--plan", "locks=x,hosts=1,rate=1"), "--plan takes a number for locks"),
        (("--plan", "locks=1,hosts=1,rate=1,size=2"), "--plan knows locks, hosts, rate"),
        (("--plan", "locks=1,hosts=1,rate=1,lease=1ms"), "--plan takes a lease of 1s or more"),
        (("--plan", "locks=1,hosts=1,rate=1", "--check"), "--plan needs the measurements"),
    ],
)
def test_mistakes_are_refused(cli: Program, arguments: tuple[str, ...], said: str) -> None:
    done = cli("bench", *arguments)
    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr


def test_nobody_there_is_said(cli: Program) -> None:
    cli.environment["HOLDFAST_URL"] = "redis://127.0.0.1:1?connect_timeout=0.2"
    done = cli("bench")
    assert (done.returncode, done.stdout) == (69, "")
    assert "cannot reach redis://127.0.0.1:1" in done.stderr


# ------------------------------------------------------------- Other addresses


def free_port() -> int:
    """Return a free port with room for a cluster's bus, 10000 above it."""
    while True:
        port = random.randrange(16_000, 18_000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


@contextlib.contextmanager
def servers(folder: Path, *commands: Callable[[int], list[str]]) -> Iterator[list[int]]:
    """Start a server for each command; they end with the block."""
    ports = [free_port() for _ in commands]
    started = [
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command(port)],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        for command, port in zip(commands, ports, strict=True)
    ]
    try:
        yield ports
    finally:
        for process in started:
            process.kill()
            process.wait()


def answers(port: int, **options: Any) -> bool:
    try:
        with redis.Redis("127.0.0.1", port=port, **options) as connection:
            return bool(connection.ping())
    except redis.ConnectionError:
        return False


def test_a_cluster_is_looked_at_whole(cli: Program, tmp_path: Path) -> None:
    def node(port: int) -> list[str]:
        return [
            *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""),
            *("--cluster-enabled", "yes", "--cluster-config-file", f"{port}.conf"),
        ]

    with servers(tmp_path, node, node, node) as ports:
        until(lambda: all(answers(port) for port in ports))
        places = [f"127.0.0.1:{port}" for port in ports]
        create = ["redis-cli", "--cluster", "create", *places, "--cluster-yes"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, timeout=60)
        cli.environment["HOLDFAST_URL"] = f"redis+cluster://{places[0]}"
        done = cli("bench", "--json", "--threads", 6, *BRIEF)
    lines = objects(done.stdout)
    clocks = [line["server"] for line in lines if line.get("subject") == "clock"]
    assert len(set(clocks)) == len(clocks) == 3
    assert all(any(place in clock for clock in clocks) for place in places)
    assert sum(line.get("subject") == "permissions" for line in lines) == 1
    assert settings(lines)["queue"][0] == "good"
    assert_all_measured(measurements(lines))


def test_it_speaks_tls(cli: Program, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=127.0.0.1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )

    def server(port: int) -> list[str]:
        return [
            *("redis-server", "--port", "0", "--tls-port", str(port), "--bind", "127.0.0.1"),
            *("--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem"),
            *("--tls-ca-cert-file", "cert.pem", "--tls-auth-clients", "no", "--save", ""),
        ]

    with servers(tmp_path, server) as (port,):
        until(lambda: answers(port, ssl=True, ssl_cert_reqs="none"))
        cli.environment["HOLDFAST_URL"] = f"rediss://127.0.0.1:{port}?tls_ca={tmp_path}/cert.pem"
        done = cli("bench", "--json", *BRIEF)
    lines = objects(done.stdout)
    assert settings(lines)["queue"][0] == "good"
    assert_all_measured(measurements(lines))
