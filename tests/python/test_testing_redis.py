"""A Redis server of a test's own, and the fixtures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import redis

import holdfast
import holdfast.testing
from conftest import until
from test_docs import examples

PROGRAM = """
    import sys, holdfast.testing
    with holdfast.testing.redis_server() as url:
        print(url, flush=True)
        sys.stdin.read()
"""


def answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as asked:
            return bool(asked.ping())
    except redis.ConnectionError:
        return False


def test_a_server_runs_as_long_as_its_block_and_keeps_nothing(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path))
        with holdfast.testing.redis_server() as url:
            assert url.startswith("redis://127.0.0.1:")
            assert len(list(tmp_path.iterdir())) == 1
            with holdfast.connect(url) as client, client.lock("x") as hold:
                hold.check()
            with redis.Redis.from_url(url) as raw:
                assert raw.config_get("save") == {"save": ""}
                assert raw.config_get("appendonly") == {"appendonly": "no"}
                assert raw.config_get("bind") == {"bind": "127.0.0.1"}
    assert not answers(url)
    assert list(tmp_path.iterdir()) == []


def test_two_servers_share_nothing() -> None:
    with (
        holdfast.testing.redis_server() as one,
        holdfast.testing.redis_server() as other,
        holdfast.connect(one) as client,
        holdfast.connect(other) as stranger,
        client.lock("x"),
    ):
        assert not stranger.lock("x").locked()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_its_process(end: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert answers(url)
        process.send_signal(end)
        process.wait(20)
        until(lambda: not answers(url))
        until(lambda: not list(tmp_path.iterdir()))


def test_without_a_program_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    server = holdfast.testing.redis_server()
    with pytest.raises(RuntimeError, match="install .* redis-server"), server:
        pass


def program(folder: Path, script: str) -> None:
    """Put a redis-server there that behaves in this way."""
    file = folder / "redis-server"
    file.write_text("#!/bin/sh\n" + script)
    file.chmod(0o755)


def test_a_server_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "echo 'Fatal: no such thing' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    server = holdfast.testing.redis_server()
    with pytest.raises(RuntimeError, match="Fatal: no such thing"), server:
        pass


def test_a_port_that_is_taken_meanwhile_is_tried_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path,
        f"""
        if [ -e {tmp_path}/tried ]; then PATH=${{PATH#*:}}; exec redis-server "$@"; fi
        echo 'bind: Address already in use' >{tmp_path}/tried
        cat {tmp_path}/tried; exit 1
        """,
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with holdfast.testing.redis_server() as url:
        assert answers(url)
    assert (tmp_path / "tried").exists()


@pytest.mark.parametrize("of", [holdfast.testing, holdfast.testing.MemoryServer])
def test_the_examples_of_the_docstrings_run(of: object) -> None:
    codes = list(examples(of.__doc__))
    assert codes
    known = {"holdfast": holdfast}
    for code in codes:
        exec(code, known)


# ------------------------------------------------------------------ Fixtures


def test_the_fixtures_are_there(holdfast_server: str, holdfast_client: holdfast.Client) -> None:
    with holdfast_client.lock("x", owner="here"), holdfast.connect(holdfast_server) as other:
        assert other.lock("x").inspect().owner == "here"


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_begins_with_an_empty_server(
    turn: int, holdfast_server: str, holdfast_client: holdfast.Client
) -> None:
    with redis.Redis.from_url(holdfast_server) as raw:
        assert raw.dbsize() == 0
        raw.set("left behind", turn)


def test_a_run_that_uses_no_fixture_imports_nothing(tmp_path: Path) -> None:
    test = """
        import sys

        def test_nothing(request):
            assert request.config.pluginmanager.has_plugin("holdfast")
            assert not [name for name in sys.modules if name.split(".")[0] == "holdfast"]
    """
    (tmp_path / "test_it.py").write_text(textwrap.dedent(test))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=50,
    )
