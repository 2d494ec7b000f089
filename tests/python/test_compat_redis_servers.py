"""The locks with redis-py's interface, where redis-py connects by TLS or by Sentinel."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import redis.asyncio.retry
from redis.backoff import NoBackoff
from redis.retry import Retry

import holdfast
import holdfast.compat.redis as compat
import holdfast.compat.redis_asyncio as compat_asyncio
from running import free_port

# redis-py has no types for them.
sentinels: Any = redis.Sentinel
asyncio_sentinels: Any = redis.asyncio.Sentinel

# --------------------------------------------------------------------- Servers


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificate(folder: Path, name: str, alternatives: str) -> None:
    """Make a certificate that the authority has signed."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(folder, "req", *new, "-keyout", f"{name}.key", "-out", "csr", "-subj", f"/CN={name}")
    (folder / "extensions").write_text(f"subjectAltName={alternatives}\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "extensions"]
    openssl(folder, "x509", "-req", "-in", "csr", "-days", "2", "-out", f"{name}.pem", *signed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("servers")
    new = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl(folder, "req", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority")
    certificate(folder, "server", "IP:127.0.0.1")
    certificate(folder, "elsewhere", "DNS:elsewhere")
    certificate(folder, "user", "DNS:user")
    both = (folder / "user.pem").read_bytes() + (folder / "user.key").read_bytes()
    (folder / "both.pem").write_bytes(both)
    # Named as `c_rehash` names it.
    hashed = ["openssl", "x509", "-hash", "-noout", "-in", "ca.pem"]
    done = subprocess.run(hashed, cwd=folder, check=True, capture_output=True, text=True)
    (folder / "authorities").mkdir()
    shutil.copy(folder / "ca.pem", folder / "authorities" / f"{done.stdout.strip()}.0")
    return folder


class Started(NamedTuple):
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def start(folder: Path, *words: str, tls: str = "", sentinel: str = "") -> Started:
    port = free_port()
    listen = ["--port", str(port)]
    if tls:
        listen = ["--port", "0", "--tls-port", str(port), "--tls-replication", "yes"]
        listen += ["--tls-cert-file", f"{tls}.pem", "--tls-key-file", f"{tls}.key"]
        listen += ["--tls-ca-cert-file", "ca.pem"]
    command = ["setpriv", "--pdeathsig", "KILL", "redis-server"]
    if sentinel:
        configuration = folder / f"sentinel-{port}.conf"
        configuration.write_text(sentinel)
        command += [str(configuration), "--sentinel"]
    else:
        listen += ["--save", ""]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    process = subprocess.Popen(
        [*command, "--bind", "127.0.0.1", *listen, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return Started(process, port)
        except ConnectionRefusedError:
            assert time.monotonic() < end, "the server does not answer"
            assert process.poll() is None, "the server has ended"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[Started]:
    """Start a server that asks for a client's certificate."""
    started = start(folder, tls="server")
    yield started
    started.stop()


@pytest.fixture(scope="module")
def misnamed(folder: Path) -> Iterator[Started]:
    started = start(folder, "--tls-auth-clients", "no", tls="elsewhere")
    yield started
    started.stop()


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "host": "127.0.0.1",
        "ssl": True,
        "ssl_ca_certs": str(folder / "ca.pem"),
        "ssl_certfile": str(folder / "user.pem"),
        "ssl_keyfile": str(folder / "user.key"),
        **more,
    }


def locked_by_both(sync: Any, asynchronous: Any, name: str) -> None:
    """Check that both interfaces lock at the server that redis-py's own commands reach."""
    with sync, sync.lock(name, timeout=5, lock_class=compat.Lock):
        assert sync.hlen(name) == 1

    async def main() -> None:
        async with asynchronous:
            lock = asynchronous.lock(name, timeout=5, lock_class=compat_asyncio.Lock)
            async with lock:
                assert await asynchronous.hlen(name) == 1
        manager = getattr(asynchronous.connection_pool, "sentinel_manager", None)
        for sentinel in manager.sentinels if manager else ():
            await sentinel.aclose()

    asyncio.run(main())


# ------------------------------------------------------------------------- TLS


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"db": 3},
        {"ssl_ca_certs": None, "ssl_ca_path": "authorities"},
        {"ssl_certfile": "both.pem", "ssl_keyfile": None},
        {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True},
        {"ssl_cert_reqs": "none", "ssl_ca_certs": None},
        {"ssl_cert_reqs": None, "ssl_check_hostname": False, "ssl_ca_certs": None},
        {"ssl_min_version": ssl.TLSVersion.TLSv1_2},
    ],
    ids=str,
)
def test_certificates_are_taken_over(
    secure: Started, folder: Path, name: str, more: dict[str, Any]
) -> None:
    for key in ("ssl_ca_path", "ssl_certfile"):
        if key in more:
            more = {**more, key: str(folder / more[key])}
    with_all = settings(folder, port=secure.port, **more)
    locked_by_both(redis.Redis(**with_all), redis.asyncio.Redis(**with_all), name)


def test_an_address_with_tls_is_taken_over(secure: Started, folder: Path, name: str) -> None:
    where = f"rediss://127.0.0.1:{secure.port}/2?ssl_ca_certs={folder}/ca.pem"
    where += f"&ssl_certfile={folder}/user.pem&ssl_keyfile={folder}/user.key"
    locked_by_both(redis.Redis.from_url(where), redis.asyncio.Redis.from_url(where), name)


def test_what_redis_py_refuses_is_refused(
    secure: Started, misnamed: Started, folder: Path, name: str
) -> None:
    for port, more in (
        (secure.port, {"ssl_ca_certs": None}),  # the system's authorities have not signed it
        (secure.port, {"ssl_certfile": None, "ssl_keyfile": None}),
        (misnamed.port, {}),
    ):
        once = {"retry": Retry(NoBackoff(), 0), "socket_connect_timeout": 0.5, **more}
        with redis.Redis(**settings(folder, port=port, **once)) as client:
            with pytest.raises(redis.exceptions.ConnectionError):
                client.ping()
            with pytest.raises(redis.exceptions.ConnectionError):
                compat.Lock(client, name).acquire(blocking=False)
    with redis.Redis(**settings(folder, port=misnamed.port, ssl_cert_reqs="none")) as client:
        compat.Lock(client, name, timeout=10, blocking=False).__enter__().release()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"ssl_check_hostname": False}, "ssl_check_hostname=False"),
        ({"ssl_ca_data": "-----"}, "ssl_ca_data"),
        ({"ssl_password": "secret"}, "ssl_password"),
        ({"ssl_ciphers": "ALL"}, "ssl_ciphers"),
        ({"ssl_min_version": ssl.TLSVersion.TLSv1_3}, "ssl_min_version"),
        ({"ssl_ca_path": "/"}, "ssl_ca_path"),
        ({"ssl_validate_ocsp": True}, "ssl_validate_ocsp"),
    ],
)
def test_what_cannot_be_kept_is_said(folder: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(holdfast.UnsupportedError, match=said) as refused:
        compat.connect(redis.Redis(**settings(folder, port=1, **more)))
    assert "secret" not in str(refused.value)


# -------------------------------------------------------------------- Sentinel


class Watched(NamedTuple):
    """A server, and a sentinel that watches it."""

    server: Started
    sentinel: Started
    sentinel_kwargs: dict[str, Any]
    kwargs: dict[str, Any]


@pytest.fixture(scope="module", params=["tcp", "tls"])
def watched(request: pytest.FixtureRequest, folder: Path) -> Iterator[Watched]:
    tls = "server" if request.param == "tls" else ""
    server = start(folder, "--requirepass", "pa/ss", tls=tls)
    watch = f"sentinel monitor mine 127.0.0.1 {server.port} 1\nsentinel auth-pass mine pa/ss\n"
    sentinel = start(folder, tls=tls, sentinel=watch)
    more = {k: v for k, v in settings(folder).items() if k != "host"} if tls else {}
    yield Watched(server, sentinel, more, {"password": "pa/ss", **more})
    sentinel.stop()
    server.stop()


def test_the_master_of_a_sentinel_is_taken_over(watched: Watched, name: str) -> None:
    at = [("127.0.0.1", 1), ("127.0.0.1", watched.sentinel.port)]  # the first is gone
    once = {"retry": Retry(NoBackoff(), 0), **watched.sentinel_kwargs}
    sync = sentinels(at, sentinel_kwargs=once)
    once["retry"] = redis.asyncio.retry.Retry(NoBackoff(), 0)
    asynchronous = asyncio_sentinels(at, sentinel_kwargs=once)
    for database in (0, 3):
        kwargs = {**watched.kwargs, "db": database}
        locked_by_both(
            sync.master_for("mine", **kwargs), asynchronous.master_for("mine", **kwargs), name
        )
    with pytest.raises(redis.exceptions.ConnectionError):
        unknown = sync.master_for("yours", socket_connect_timeout=0.5, **watched.kwargs)
        compat.Lock(unknown, name).acquire(blocking=False)
    for sentinel in sync.sentinels:
        sentinel.close()


def test_what_sentinel_cannot_keep_is_said(folder: Path) -> None:
    at = [("127.0.0.1", 1)]
    plain = sentinels(at)
    with pytest.raises(holdfast.UnsupportedError, match="replica"):
        compat.connect(plain.slave_for("mine"))
    with pytest.raises(holdfast.UnsupportedError, match="different TLS settings"):
        compat.connect(plain.master_for("mine", ssl=True))
    guarded = sentinels(at, sentinel_kwargs={"password": "secret"})
    with pytest.raises(holdfast.UnsupportedError, match="different password") as refused:
        compat.connect(guarded.master_for("mine"))
    assert "secret" not in str(refused.value)
