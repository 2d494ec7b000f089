"""Fence checks for SQLAlchemy: `pip install holdfast-lock[sqlalchemy]`.

    class Item(Fenced, Base):
        __tablename__ = "item"
        id: Mapped[int] = mapped_column(primary_key=True)
        stock: Mapped[int]

    with lock as hold, Session() as session, session.begin():
        item = session.get(Item, 7, with_for_update=True)
        item.fence = hold.fence
        item.stock -= 1

guard(session, "stock", hold.fence) checks without a column, as holdfast.sql.guard() does.
"""

from __future__ import annotations

from typing import Any

try:
    from sqlalchemy import BigInteger, Connection, event, select, text, update
    from sqlalchemy.orm import Mapped, Mapper, Session, mapped_column, object_session
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "holdfast.contrib.sqlalchemy needs sqlalchemy, which comes with holdfast-lock[sqlalchemy]",
        name=missing.name,
    ) from missing

import holdfast

from .. import sql

__all__ = ["Fenced", "create_table", "guard"]


class Fenced:
    """A mixin: the column `fence` has the fence of the last holder that wrote the row.

    A flush that changes or deletes an object raises StaleFence if the row has a greater fence
    than the object. One more UPDATE checks and locks the row.

    Read the object with with_for_update in the same transaction: then no late holder can write
    between your read and your flush. Statements such as update(Item) are not checked: add
    where(Item.fence <= fence), and set the fence.
    """

    fence: Mapped[int] = mapped_column(BigInteger, default=0, server_default=text("0"))


@event.listens_for(Fenced, "before_update", propagate=True)
def _check_update(mapper: Mapper[Any], connection: Connection, target: Fenced) -> None:
    session = object_session(target)
    if session is None or session.is_modified(target):  # otherwise nothing will be written
        _check_fence(mapper, connection, target)


@event.listens_for(Fenced, "before_delete", propagate=True)
def _check_fence(mapper: Mapper[Any], connection: Connection, target: Fenced) -> None:
    column = mapper.columns["fence"]
    identity = mapper.primary_key_from_instance(target)
    row = [key == value for key, value in zip(column.table.primary_key, identity, strict=True)]
    mine = target.fence
    checked = update(column.table).where(*row, column <= mine).values({column.name: mine})
    if connection.execute(checked).rowcount:
        return
    # With a lock, because a snapshot may be older than the row.
    last = connection.execute(select(column).where(*row).with_for_update()).scalar()
    if last is not None and last > mine:
        raise holdfast.StaleFence(f"{type(target).__name__} {identity[0]}", mine, last)


def guard(session: Session | Connection, name: str, fence: int, table: str = sql.TABLE) -> None:
    """Refuse a late holder's transaction, as holdfast.sql.guard() does.

        guard(session, "stock", hold.fence)
        await session.run_sync(guard, "stock", hold.fence)

    session  A Session or a Connection, on PostgreSQL, MySQL, MariaDB or SQLite, with any driver;
             an AsyncSession or AsyncConnection by its run_sync().
    name     The guarded resource, usually the lock's name: 1 to 255 bytes in UTF-8.
    fence    The hold's fence.
    table    The table of the fences, as in create_table().

    Call it first in the transaction, before anything is read. Raises StaleFence if a holder with a
    greater fence has registered it.
    """
    check = _check(session, table)
    sql.parameters(name, fence)  # refuses wrong arguments
    result = session.execute(text(check.register), {"name": name, "fence": fence})
    connection = session if isinstance(session, Connection) else session.connection()
    sql.refuse_autocommit(connection.connection.driver_connection)
    if check.read:
        result = session.execute(text(check.read), {"name": name})
    sql.compare(name, fence, result.one())


def create_table(session: Session | Connection, table: str = sql.TABLE) -> None:
    """Create the table of the fences, unless it exists.

        create_table(op.get_bind())

    This form is for a migration of Alembic.
    """
    session.execute(text(_check(session, table).create))


def _check(session: Session | Connection, table: str) -> sql.Check:
    dialect = (
        session.get_bind().dialect.name if isinstance(session, Session) else session.dialect.name
    )
    return sql.statements(dialect.replace("mariadb", "mysql"), table, ":name", ":fence")
