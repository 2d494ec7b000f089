"""The databases in which a fence is checked, each through its driver."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest

pytest.importorskip("psycopg")
pytest.importorskip("psycopg2")
pytest.importorskip("pymysql")

import psycopg
import psycopg2
import pymysql

if TYPE_CHECKING:
    from conftest import Databases


class Database(NamedTuple):
    """A database, and the arguments of its driver."""

    driver: str
    url: str

    @property
    def mark(self) -> str:
        return "?" if self.driver == "sqlite3" else "%s"

    def connect(self, autocommit: bool = False) -> Any:
        if self.driver == "sqlite3":
            level: Any = None if autocommit else ""
            return sqlite3.connect(
                self.url, timeout=30, check_same_thread=False, isolation_level=level
            )
        if self.driver == "pymysql":
            at: Any = urlsplit(self.url)
            return pymysql.connect(
                host=at.hostname,
                port=at.port,
                user=at.username,
                database=at.path[1:],
                autocommit=autocommit,
            )
        if self.driver == "psycopg2":
            connection = psycopg2.connect(self.url)
            connection.autocommit = autocommit
            return connection
        return psycopg.connect(self.url, autocommit=autocommit)

    @contextlib.contextmanager
    def opened(self, **options: bool) -> Iterator[tuple[Any, Any]]:
        """Yield a connection and a cursor, and close them at the end."""
        connection = self.connect(**options)
        try:
            yield connection, connection.cursor()
        finally:
            connection.close()

    def do(self, *script: str) -> Any:
        """Run a script in one transaction, and return the first row of its last statement."""
        with self.opened() as (connection, cursor):
            for statement in script:
                cursor.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            connection.commit()
            return row


DRIVERS = ["sqlite3", "psycopg", "psycopg2", "pymysql"]


def database(driver: str, request: pytest.FixtureRequest) -> Database:
    if driver == "sqlite3":
        folder: Path = request.getfixturevalue("tmp_path")
        return Database(driver, str(folder / "shop.sqlite3"))
    running: Databases = request.getfixturevalue("databases")
    return Database(driver, running.mariadb if driver == "pymysql" else running.postgresql)
