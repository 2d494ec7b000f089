"""holdfast.sql, in real databases: a write that a paused holder makes too late is refused."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import holdfast
import holdfast.sql
from conftest import Databases, Server, Thread, until
from databases import DRIVERS, Database, database
from holdfast import StaleFence
from holdfast.sql import aguard, guard, refuse_autocommit

pytest.importorskip("psycopg")

import psycopg.rows
import psycopg2.extras
import pymysql.cursors


@pytest.fixture(params=DRIVERS)
def shop(request: pytest.FixtureRequest) -> Database:
    """Return a database with one item in stock, and no fence."""
    made = database(request.param, request)
    made.do(
        "DROP TABLE IF EXISTS item",
        "CREATE TABLE item (id INTEGER PRIMARY KEY, stock INTEGER, log VARCHAR(9999))",
        "INSERT INTO item VALUES (7, 10, '')",
        "DROP TABLE IF EXISTS holdfast_fence",
    )
    with made.opened() as (connection, cursor):
        holdfast.sql.create_table(cursor)
        holdfast.sql.create_table(cursor)  # again, as when two programs start
        connection.commit()
    return made


PROGRAM = Path(__file__).parent / "programs/late_writer.py"


@contextlib.contextmanager
def paused(shop: Database, server: Server, name: str, guarded: bool) -> Iterator[Callable[[], str]]:
    """Start a holder whose lease ends while it is paused; the result lets it write too late."""
    command = [sys.executable, str(PROGRAM), server.tcp, shop.driver, shop.url, name]
    with subprocess.Popen(
        [*command, "guard"] if guarded else command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)

        def resume() -> str:
            holder.send_signal(signal.SIGCONT)
            return holder.communicate("\n", timeout=30)[0]

        try:
            yield resume
        finally:
            holder.kill()


@pytest.mark.parametrize(
    ("shop", "guarded"),
    [*((driver, True) for driver in DRIVERS), ("psycopg", False)],
    indirect=["shop"],
)
def test_a_holder_that_was_paused_past_its_lease_cannot_write(
    shop: Database, guarded: bool, client: holdfast.Client, name: str, server: Server
) -> None:
    with (
        paused(shop, server, name, guarded) as resume,
        client.lock(name).hold(timeout=30) as hold,  # it waits for the end of the lease
        shop.opened() as (connection, cursor),
    ):
        guard(cursor, name, hold.fence)
        cursor.execute("UPDATE item SET stock = 9")
        connection.commit()
        said = resume()
    if guarded:
        assert f"a later holder was there with the fence {hold.fence}" in said
        assert shop.do("SELECT stock FROM item") == (9,)
    else:  # for this case the fence is checked
        assert said == "written\n"
        assert shop.do("SELECT stock FROM item") == (1,)


def test_an_error_names_both_fences_and_the_name(shop: Database) -> None:
    with shop.opened() as (connection, cursor):
        guard(cursor, "stock", 42)
        guard(cursor, "stock", 42)  # a holder may write twice
        connection.commit()
        guard(cursor, "stock", 42)
        guard(cursor, "other", 1)
        with pytest.raises(StaleFence) as refused:
            guard(cursor, "stock", 41)
    error: Any = pickle.loads(pickle.dumps(refused.value))
    assert (error.name, error.fence, error.last) == ("stock", 41, 42)
    assert str(error) == (
        "the fence 41 of 'stock' is stale: a later holder was there with the fence 42."
        " Stop: the lock is no longer yours"
    )
    assert isinstance(error, holdfast.LockLost)


def test_names_that_differ_at_all_are_different(shop: Database) -> None:
    names = ["stock", "Stock", "stock ", "stöck", "stock\N{FIRE}", "s" * 255, "s" * 254]
    with shop.opened() as (connection, cursor):
        for fence, name in enumerate(names, 1):
            guard(cursor, name, 1000 - fence)
        connection.commit()
    assert shop.do("SELECT count(*) FROM holdfast_fence") == (len(names),)


# ------------------------------------------------------------------ Two writers at once


def waits(shop: Database) -> bool:
    """Return whether a transaction waits for another."""
    return bool(
        shop.do(
            "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
            if shop.driver == "pymysql"
            else "SELECT count(*) FROM pg_locks WHERE NOT granted"
        )[0]
    )


SERVERS = pytest.mark.parametrize("shop", ["psycopg", "pymysql"], indirect=True)


def met(shop: Database, first: int, second: int, end: str) -> tuple[Thread, int]:
    """Guard while another transaction has guarded, which then ends; return what was read."""
    with shop.opened() as (one, mine), shop.opened() as (_, theirs):
        guard(mine, "stock", first)
        mine.execute("UPDATE item SET stock = 5")

        def follow() -> int:
            guard(theirs, "stock", second)
            theirs.execute("SELECT stock FROM item")
            return int(theirs.fetchone()[0])

        following = Thread(follow)
        until(lambda: waits(shop))
        getattr(one, end)()
        following.join()
        return following, following.result if isinstance(following.result, int) else -1


@SERVERS
def test_the_later_holder_waits_for_the_earlier_one_and_reads_what_it_wrote(
    shop: Database,
) -> None:
    following, read = met(shop, 41, 42, "commit")
    following.finish()
    assert read == 5


@SERVERS
def test_the_earlier_holder_waits_for_the_later_one_and_is_refused(shop: Database) -> None:
    following, _ = met(shop, 42, 41, "commit")
    with pytest.raises(StaleFence, match="41 of 'stock'.* 42"):
        following.finish()


@SERVERS
def test_what_was_rolled_back_refuses_nobody(shop: Database) -> None:
    following, read = met(shop, 42, 41, "rollback")
    following.finish()
    assert read == 10


@SERVERS
def test_a_snapshot_from_before_the_later_holder_hides_no_fence(shop: Database) -> None:
    with shop.opened() as (late, mine), shop.opened() as (later, theirs):
        guard(mine, "stock", 1)
        late.commit()
        isolated(mine, shop.driver, "REPEATABLE READ")
        late.commit()
        mine.execute("SELECT stock FROM item")
        guard(theirs, "stock", 42)
        later.commit()
        mine.execute("SELECT stock FROM item")
        with pytest.raises((StaleFence, psycopg.errors.SerializationFailure)):
            guard(mine, "stock", 41)


LEVELS = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


def isolated(cursor: Any, driver: str, level: str) -> None:
    if driver == "pymysql":
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    elif driver != "sqlite3":
        cursor.execute(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {level}")


def again(error: Exception) -> bool:
    """Return whether the database asks to run the transaction again."""
    return isinstance(error, AGAIN) or (
        isinstance(error, pymysql.OperationalError) and error.args[0] in (1020, 1205, 1213)
    )


@pytest.mark.parametrize(
    ("shop", "level"),
    [(driver, level) for driver in ("psycopg", "pymysql") for level in LEVELS]
    + [("pymysql", "READ UNCOMMITTED"), ("sqlite3", "")],
    indirect=["shop"],
)
def test_writers_at_once_lose_nothing_and_come_in_the_order_of_their_fences(
    shop: Database, level: str
) -> None:
    fences = list(range(1, 61))
    random.Random(level).shuffle(fences)
    left, written, refused = iter(fences), set[int](), set[int]()
    pick = threading.Lock()

    def write(cursor: Any, fence: int) -> None:
        guard(cursor, "stock", fence)
        cursor.execute("SELECT log FROM item")
        (log,) = cursor.fetchone()
        cursor.execute(f"UPDATE item SET log = {shop.mark}", (f"{log} {fence}",))

    def work() -> None:
        with shop.opened() as (connection, cursor):
            isolated(cursor, shop.driver, level)
            connection.commit()
            while True:
                with pick:
                    fence = next(left, None)
                if fence is None:
                    return
                while True:
                    try:
                        write(cursor, fence)
                        connection.commit()
                        written.add(fence)
                        break
                    except StaleFence:
                        connection.rollback()
                        refused.add(fence)
                        break
                    except Exception as error:
                        connection.rollback()
                        if not again(error):
                            raise

    for worker in [Thread(work) for _ in range(4)]:
        worker.finish()
    log = [int(each) for each in shop.do("SELECT log FROM item")[0].split()]
    assert log == sorted(written), "a write is lost, or came after a later holder's"
    assert refused == set(fences) - written
    assert max(fences) in written
    assert refused, "no holder was late"


# ------------------------------------------------------------------------ Wrong use


def test_a_guard_without_a_transaction_is_refused(shop: Database) -> None:
    with shop.opened(autocommit=True) as (_, cursor):
        with pytest.raises(RuntimeError, match="autocommit mode"):
            guard(cursor, "stock", 42)
        cursor.execute("BEGIN")
        guard(cursor, "stock", 42)
        cursor.execute("COMMIT")
        with pytest.raises(RuntimeError, match="autocommit mode"):
            guard(cursor, "stock", 42)


def test_drivers_that_no_test_installs_are_asked_too() -> None:
    """Stand-ins that report the same of a transaction as mysqlclient, and asyncpg through
    SQLAlchemy."""
    for autocommit in (
        SimpleNamespace(get_autocommit=lambda: True),
        SimpleNamespace(is_in_transaction=lambda: False),
    ):
        with pytest.raises(RuntimeError, match="autocommit mode"):
            refuse_autocommit(autocommit)
    for within in (
        SimpleNamespace(get_autocommit=lambda: False),
        SimpleNamespace(is_in_transaction=lambda: True),
    ):
        refuse_autocommit(within)


def test_another_table_may_have_the_fences(shop: Database) -> None:
    shop.do("DROP TABLE IF EXISTS other_fence")
    with shop.opened() as (connection, cursor):
        holdfast.sql.create_table(cursor, "other_fence")
        guard(cursor, "stock", 42, table="other_fence")
        with pytest.raises(StaleFence):
            guard(cursor, "stock", 41, table="other_fence")
        guard(cursor, "stock", 41)
        for table in ("a b", "a.b.c", "", "a;b", "ä"):
            with pytest.raises(ValueError, match="table must be the name of a table"):
                guard(cursor, "stock", 41, table=table)
        connection.commit()


@pytest.mark.parametrize(
    ("name", "fence", "error", "text"),
    [
        (b"stock", 1, TypeError, "name must be str, not b'stock'"),
        ("", 1, ValueError, "name must have 1 to 255 bytes as UTF-8, not 0"),
        ("ä" * 128, 1, ValueError, "name must have 1 to 255 bytes as UTF-8, not 256"),
        ("stock", "1", TypeError, "fence must be an int, as hold.fence is, not '1'"),
        ("stock", True, TypeError, "fence must be an int"),
        ("stock", 0, ValueError, "fence must be positive, as hold.fence is, not 0"),
        ("stock", 1 << 63, ValueError, "fence must be"),
    ],
)
def test_wrong_arguments_are_refused(name: Any, fence: Any, error: Any, text: str) -> None:
    cursor = sqlite3.connect(":memory:").cursor()
    with pytest.raises(error, match=text):
        guard(cursor, name, fence)
    cursor.connection.close()


def test_a_cursor_of_an_unknown_driver_is_refused() -> None:
    with pytest.raises(TypeError, match=r"guard\(\) needs a cursor of psycopg, .*, not 7"):
        guard(7, "stock", 42)


@pytest.mark.parametrize("shop", ["psycopg", "psycopg2", "pymysql"], indirect=True)
def test_rows_may_be_mappings(shop: Database) -> None:
    with shop.opened() as (connection, _):
        cursor = {
            "psycopg": lambda: connection.cursor(row_factory=psycopg.rows.dict_row),
            "psycopg2": lambda: connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor),
            "pymysql": lambda: connection.cursor(pymysql.cursors.DictCursor),
        }[shop.driver]()
        guard(cursor, "stock", 42)
        with pytest.raises(StaleFence):
            guard(cursor, "stock", 41)


@pytest.mark.parametrize("shop", ["psycopg"], indirect=True)
def test_a_task_checks_its_fence(shop: Database, databases: Databases) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(databases.postgresql) as connection:
            cursor = connection.cursor()
            await aguard(cursor, "stock", 42)
            with pytest.raises(StaleFence):
                await aguard(cursor, "stock", 41)
            with pytest.raises(TypeError, match=r"await aguard\(\)"):
                guard(cursor, "stock", 43)
            await connection.rollback()
            await connection.set_autocommit(True)
            with pytest.raises(RuntimeError, match="autocommit mode"):
                await aguard(cursor, "stock", 42)

    asyncio.run(main())
    with shop.opened() as (_, cursor), pytest.raises(TypeError, match=r"call guard\(\)"):
        asyncio.run(aguard(cursor, "stock", 42))
