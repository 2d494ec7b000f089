"""Fence checks in SQL: a holder that was paused for longer than its lease cannot write.

    with lock as hold, database.transaction():
        holdfast.sql.guard(cursor, "stock", hold.fence)
        cursor.execute("UPDATE item SET stock = stock - 1 WHERE id = 7")

guard() keeps the greatest fence of each name in a table of the database that has the data:

    CREATE TABLE holdfast_fence (name VARCHAR(255) PRIMARY KEY, fence BIGINT NOT NULL)

On MySQL and MariaDB the name is a VARBINARY(255), so that upper and lower case differ.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ._errors import StaleFence

__all__ = ["StaleFence", "aguard", "create_table", "guard"]

TABLE = "holdfast_fence"
LONGEST = 255


class Check(NamedTuple):
    """The SQL of a check: the first statement registers the fence, and a query reads the last."""

    register: str
    read: str  # or empty: the first statement returns the last fence
    create: str


_CREATE = "CREATE TABLE IF NOT EXISTS {table} (name {type} PRIMARY KEY, fence BIGINT NOT NULL)"
_UPSERT = (
    "INSERT INTO {table} AS known (name, fence) VALUES ({name}, {fence})"
    " ON CONFLICT (name) DO UPDATE SET fence = {greatest}(known.fence, excluded.fence)"
)
# Each first statement locks the row until the transaction ends, even if it does not change it. On
# MySQL a plain SELECT would read from the transaction's snapshot, which may be older than the row.
_CHECKS = {
    "postgresql": (_UPSERT + " RETURNING fence", "", "VARCHAR(255)", "GREATEST"),
    "sqlite": (_UPSERT, "SELECT fence FROM {table} WHERE name = {name}", "VARCHAR(255)", "max"),
    "mysql": (
        "INSERT INTO {table} (name, fence) VALUES ({name}, {fence})"
        " ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))",
        "SELECT fence FROM {table} WHERE name = {name} FOR UPDATE",
        "VARBINARY(255)",
        "",
    ),
}

_DRIVERS = {
    "psycopg": ("postgresql", "%s"),
    "psycopg2": ("postgresql", "%s"),
    "pymysql": ("mysql", "%s"),
    "MySQLdb": ("mysql", "%s"),
    "sqlite3": ("sqlite", "?"),
}


def guard(cursor: Any, name: str, fence: int, table: str = TABLE) -> None:
    """Refuse a late holder's transaction, and from now on every transaction of an earlier holder.

        guard(cursor, "stock", hold.fence)

    cursor  A cursor of psycopg, psycopg2, PyMySQL, mysqlclient or sqlite3; or of Django's
            connection.cursor(). It must be in a transaction.
    name    The guarded resource, usually the lock's name: 1 to 255 bytes in UTF-8. Fences of
            different locks cannot be compared, so use each name under one lock only.
    fence   The hold's fence.
    table   The table of the fences, as in create_table().

    Call it first in the transaction, before anything is read: from then on until the transaction
    ends, other callers with this name wait for it. You may call it again with the same fence. One
    statement registers the fence and reads the last one.

    Raises StaleFence if a holder with a greater fence has registered it: roll back then, and stop:
    the lock is no longer yours. Raises RuntimeError outside a transaction, where the guard would
    end before the write. At the isolation levels REPEATABLE READ and SERIALIZABLE, a database may
    refuse one of two transactions that meet: run it again from its beginning, with the guard, as
    for every transaction there.
    """
    dialect, mark, connection = _driver(cursor)
    if inspect.iscoroutinefunction(cursor.execute):
        raise TypeError(f"{cursor!r} is a cursor for asyncio: await aguard() instead of guard()")
    check = statements(dialect, table, mark, mark)
    first, second = parameters(name, fence)
    cursor.execute(check.register, first)
    refuse_autocommit(connection)
    if check.read:
        cursor.execute(check.read, second)
    compare(name, fence, cursor.fetchone())


async def aguard(cursor: Any, name: str, fence: int, table: str = TABLE) -> None:
    """Do the same as guard() with a cursor for asyncio: psycopg.AsyncCursor."""
    dialect, mark, connection = _driver(cursor)
    if not inspect.iscoroutinefunction(cursor.execute):
        raise TypeError(f"{cursor!r} is no cursor for asyncio: call guard()")
    check = statements(dialect, table, mark, mark)
    await cursor.execute(check.register, parameters(name, fence)[0])
    refuse_autocommit(connection)
    compare(name, fence, await cursor.fetchone())


def create_table(cursor: Any, table: str = TABLE) -> None:
    """Create the table of the fences, unless it exists: for a migration, or for tests."""
    dialect, mark, _ = _driver(cursor)
    cursor.execute(statements(dialect, table, mark, mark).create)


def statements(dialect: str, table: str, name: str, fence: str) -> Check:
    """Return the SQL for a dialect, with these marks for the parameters."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", table, re.ASCII):
        raise ValueError(
            f"table must be the name of a table, of letters, digits and '_', not {table!r}"
        )
    if dialect not in _CHECKS:
        raise ValueError(f"guard() knows {', '.join(_CHECKS)}, not the database {dialect!r}")
    register, read, type_, greatest = _CHECKS[dialect]
    words = {"table": table, "name": name, "fence": fence, "greatest": greatest, "type": type_}
    return Check(*(each.format(**words) for each in (register, read, _CREATE)))


def parameters(name: str, fence: int) -> tuple[tuple[str, int], tuple[str]]:
    """Return the parameters of the two statements; refuse a wrong name or fence."""
    if not isinstance(name, str):
        raise TypeError(f"name must be str, not {name!r}")
    if not 0 < len(name.encode()) <= LONGEST:
        raise ValueError(f"name must have 1 to {LONGEST} bytes as UTF-8, not {len(name.encode())}")
    if isinstance(fence, bool) or not isinstance(fence, int):
        raise TypeError(f"fence must be an int, as hold.fence is, not {fence!r}")
    if not 0 < fence < 1 << 63:
        raise ValueError(f"fence must be positive, as hold.fence is, not {fence}")
    return (name, fence), (name,)


def compare(name: str, fence: int, row: Any) -> None:
    """Refuse a fence that is less than the last fence."""
    last = row["fence"] if isinstance(row, Mapping) else row[0]
    if last > fence:
        raise StaleFence(name, fence, last)


def refuse_autocommit(connection: Any) -> None:
    """Refuse a connection that has no transaction after a statement."""
    if _in_transaction(connection) is False:
        raise RuntimeError(
            "guard() needs a transaction, and this connection is in autocommit mode: an older"
            " holder could write between the guard and your write. Begin a transaction, and guard"
            " and write in it"
        )


def _in_transaction(connection: Any) -> bool | None:
    """Ask the driver; return None if it does not know."""
    if hasattr(connection, "in_atomic_block"):  # Django
        return bool(connection.in_atomic_block or not connection.get_autocommit())
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    if status is not None:  # psycopg, psycopg2
        return bool(status != 0)
    if hasattr(connection, "server_status"):  # PyMySQL
        return bool(connection.server_status & 1)
    within = getattr(connection, "in_transaction", None)  # sqlite3
    if isinstance(within, bool):
        return within
    if hasattr(connection, "is_in_transaction"):  # asyncpg, through SQLAlchemy
        return bool(connection.is_in_transaction())
    if hasattr(connection, "get_autocommit"):  # mysqlclient, which reports no more
        return not connection.get_autocommit()
    return None


def _driver(cursor: Any) -> tuple[str, str, Any]:
    """Return the dialect, the mark of a parameter, and the connection."""
    django: Any = getattr(cursor, "db", None)
    if getattr(django, "vendor", None) in _CHECKS:  # the mark is the same for each of its databases
        return django.vendor, "%s", django
    for each in type(cursor).__mro__:
        known = _DRIVERS.get(each.__module__.partition(".")[0])
        if known:
            return *known, cursor.connection
    raise TypeError(f"guard() needs a cursor of {', '.join(_DRIVERS)} or Django, not {cursor!r}")
