"""The modules that an import needs, and those that it loads."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


def run(script: str) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=30)


@pytest.mark.parametrize(
    "module", ["holdfast", "holdfast.compat.redis", "holdfast.contrib.apscheduler"]
)
def test_the_package_needs_nothing_but_python(module: str) -> None:
    run(f"""
        import sys
        for each in ("typing_extensions", "redis", "opentelemetry", "prometheus_client", "gevent"):
            sys.modules[each] = None
        import {module}
    """)


def test_a_fork_s_client_needs_no_redis_py() -> None:
    run("""
        import sys
        sys.modules["redis"] = None
        import holdfast, holdfast.compat.redis as compat

        class Pool:
            connection_class = object
            connection_kwargs = {"host": "localhost", "port": 1}

        class Theirs:
            connection_pool = Pool()
            def get_encoder(self):
                return self
            def encode(self, text):
                return text.encode()

        try:
            compat.Lock(Theirs(), "x").acquire()
        except holdfast.ConnectError as error:
            assert "localhost" in str(error), error
        else:
            raise AssertionError("who answers there?")
        try:
            compat.Lock(Theirs(), "x").release()
        except holdfast.LockError as error:
            assert error.lock_name == "x"
    """)


@pytest.mark.parametrize(
    ("module", "needed", "extra"),
    [
        ("otel", "opentelemetry", "otel"),
        ("prometheus", "prometheus_client", "prometheus"),
        ("contrib.celery", "celery", "celery"),
        ("contrib.django", "django", "django"),
        ("contrib.django.cache", "django_redis", "django-redis"),
        ("contrib.fastapi", "fastapi", "fastapi"),
        ("contrib.rq", "rq", "rq"),
        ("contrib.sqlalchemy", "sqlalchemy", "sqlalchemy"),
    ],
)
def test_an_extra_that_is_not_installed_is_named(module: str, needed: str, extra: str) -> None:
    run(f"""
        import sys
        sys.modules["{needed}"] = None
        try:
            import holdfast.{module}
        except ModuleNotFoundError as error:
            assert "holdfast-lock[{extra}]" in str(error), error
            assert error.name.startswith("{needed}"), error.name
        else:
            raise AssertionError("imported without {needed}")
    """)
