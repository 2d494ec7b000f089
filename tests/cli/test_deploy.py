"""The files of examples/deploy: each is read by its own tool, and the programs that they start are
run."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import redis
import yaml

import holdfast
from conftest import PROGRAM, ROOT, Program, Server, until

DEPLOY = ROOT / "examples/deploy"
KUBERNETES = sorted(DEPLOY.glob("kubernetes/*.yaml"))
INDEXER = """#!/bin/sh
echo "$HOLDFAST_FENCE"
exec sleep 1000
"""
BACKUP = """#!/bin/sh
echo ran
read line
"""


def manifest(name: str) -> Any:
    return yaml.safe_load(DEPLOY.joinpath("kubernetes", name).read_text())


def container(name: str) -> Any:
    spec = manifest(name)["spec"]
    pod = spec["jobTemplate"]["spec"] if "jobTemplate" in spec else spec
    return pod["template"]["spec"]["containers"][0]


def exec_start(unit: str) -> list[str]:
    return shlex.split(
        re.findall(r"^ExecStart=(.*)$", DEPLOY.joinpath("systemd", unit).read_text(), re.M)[0]
    )


def crontab() -> list[str]:
    """Return the line that cron runs."""
    line = re.findall(r"^0 3 \* \* \* (.*)$", DEPLOY.joinpath("cron/backup").read_text(), re.M)[0]
    return ["/bin/sh", "-c", line]


@pytest.fixture
def host(cli: Program, tmp_path: Path, raw: redis.Redis) -> Program:
    """Prepare a host in tmp_path, with the programs that the files name."""
    raw.delete("indexer", "backup")
    for name, text in (("indexer", INDEXER), ("backup", BACKUP)):
        tmp_path.joinpath(name).write_text(text)
        tmp_path.joinpath(name).chmod(0o755)
    tmp_path.joinpath("holdfast").symlink_to(PROGRAM)
    cli.environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    return cli


def start(host: Program, command: list[str], **options: Any) -> subprocess.Popen[str]:
    here = [re.sub("/usr/(local/)?bin/", f"{host.folder}/", word) for word in command]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(here, env=host.environment, text=True, **pipes, **options)
    host.started.append(process)
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# --------------------------------------------------------------------- The files


def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    for unit in DEPLOY.glob("systemd/*"):
        text = unit.read_text().replace("/usr/bin/holdfast", str(PROGRAM))
        tmp_path.joinpath(unit.name).write_text(text)
    units = sorted(tmp_path.iterdir())
    assert len(units) == 3
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_cron_accepts_the_table() -> None:
    checked = subprocess.run(["crontab", "-n", DEPLOY / "cron/backup"], capture_output=True)
    assert checked.returncode == 0, checked.stderr
    line = DEPLOY.joinpath("cron/backup").read_text().splitlines()[-1]
    assert f"\n{line}\n" in ROOT.joinpath("docs/cli.md").read_text()


@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.name)
def test_a_manifest_is_what_kubernetes_knows(file: Path) -> None:
    kubernetes_validate.validate(yaml.safe_load(file.read_text()), "1.37", strict=True)
    spoilt = yaml.safe_load(file.read_text().replace("command:", "comand:"))
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(spoilt, "1.37", strict=True)


# --------------------------------------------------------------------- One leads

LEADERS = {
    "indexer.service": exec_start("indexer.service"),
    "indexer.yaml": container("indexer.yaml")["command"],
}


@pytest.mark.parametrize("command", LEADERS.values(), ids=LEADERS)
def test_one_works_and_the_next_takes_over(
    command: list[str], host: Program, client: holdfast.Client, raw: redis.Redis
) -> None:
    lock = client.lock("indexer")

    def standby() -> subprocess.Popen[str]:
        process = start(host, command)
        until(lambda: lock.inspect().waiters == 1)
        return process

    first = start(host, command)
    fences = [int(line_of(first))]
    second = standby()
    since = time.monotonic()
    first.send_signal(signal.SIGTERM)
    fences.append(int(line_of(second)))
    assert time.monotonic() - since < 9, "it waited for the lease"
    third = standby()
    second.kill()
    raw.pexpire("indexer", 1)  # the lease of 10 s has ended
    fences.append(int(line_of(third)))
    assert fences == sorted(set(fences))
    third.terminate()
    third.wait(20)
    assert not lock.locked()


def test_an_indexer_that_is_stopped_has_not_failed(host: Program, client: holdfast.Client) -> None:
    unit = DEPLOY.joinpath("systemd/indexer.service").read_text()
    clean = {0, *map(int, re.findall(r"^SuccessExitStatus=(\d+)$", unit, re.M))}
    works = start(host, exec_start("indexer.service"))
    line_of(works)
    waits = start(host, exec_start("indexer.service"))
    until(lambda: client.lock("indexer").inspect().waiters == 1)
    for process in (waits, works):
        process.terminate()
        assert process.wait(20) in clean


def test_a_pod_is_ready_if_it_leads_or_waits(
    host: Program, client: holdfast.Client, own_server: Server
) -> None:
    pod = container("indexer.yaml")
    here = socket.gethostname()
    lock = client.lock("indexer", owner="on another host")

    def ready(name: str, **more: str) -> int:
        probe = pod["readinessProbe"]["exec"]["command"]
        variables = {**host.environment, "HOSTNAME": name, **more}
        return subprocess.run(probe, env=variables, stderr=subprocess.DEVNULL).returncode

    assert ready(here) == 1
    with lock:
        start(host, pod["command"])
        until(lambda: lock.inspect().waiters == 1)
        assert (ready(here), ready("indexer-7")) == (0, 1)
    until(lambda: lock.inspect().waiters == 0)
    assert (ready(here), ready("indexer-7")) == (0, 1)
    os.kill(own_server.pid, signal.SIGKILL)
    assert ready(here, HOLDFAST_URL=own_server.url) == 1
    host.started[0].terminate()
    host.started[0].wait(20)
    assert ready(here) == 1


def test_a_pod_is_alive_while_its_work_gets_on(host: Program, tmp_path: Path) -> None:
    alive = tmp_path / "alive"

    def probe() -> int:
        command = container("indexer.yaml")["livenessProbe"]["exec"]["command"]
        return subprocess.run(
            [word.replace("/tmp/alive", str(alive)) for word in command]
        ).returncode

    assert probe() == 0  # it waits
    alive.touch()
    assert probe() == 0
    hour_ago = time.time() - 3600
    os.utime(alive, (hour_ago, hour_ago))
    assert probe() == 1


# ---------------------------------------------------------------- Once in a night

NIGHTLY = {
    "cron": crontab(),
    "backup.service": exec_start("backup.service"),
    "backup.yaml": container("backup.yaml")["command"],
}


@pytest.mark.parametrize("command", NIGHTLY.values(), ids=NIGHTLY)
def test_two_start_and_one_works(command: list[str], host: Program, raw: redis.Redis) -> None:
    first = start(host, command)
    assert line_of(first) == "ran"
    at_the_same_time = start(host, command)
    assert (at_the_same_time.communicate(timeout=20)[0], at_the_same_time.returncode) == ("", 0)
    first.communicate("\n", timeout=20)
    assert first.returncode == 0
    late = start(host, command)
    assert (late.communicate(timeout=20)[0], late.returncode) == ("", 0)
    assert raw.pttl("backup") > 22 * 3_600_000
    raw.delete("backup")
