"""holdfast.contrib.sqlalchemy, in real databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
from conftest import Thread, until
from databases import Database, database

pytest.importorskip("sqlalchemy")

from sqlalchemy import Engine, ForeignKey, String, create_engine, select, update
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from holdfast.contrib.sqlalchemy import Fenced, create_table, guard


class Base(DeclarativeBase):
    pass


class Item(Fenced, Base):
    __tablename__ = "item"
    id: Mapped[int] = mapped_column(primary_key=True)
    stock: Mapped[int]
    kind: Mapped[str] = mapped_column(String(9), default="item")
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "item"}


class Book(Item):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(ForeignKey("item.id"), primary_key=True)
    pages: Mapped[int]
    __mapper_args__ = {"polymorphic_identity": "book"}


class Crate(Base):
    __tablename__ = "crate"
    id: Mapped[int] = mapped_column(primary_key=True)
    bottles: Mapped[list[Bottle]] = relationship(cascade="all, delete-orphan")


class Bottle(Fenced, Base):
    __tablename__ = "bottle"
    id: Mapped[int] = mapped_column(primary_key=True)
    crate: Mapped[int] = mapped_column(ForeignKey("crate.id"))


HERE = pytest.mark.parametrize("place", ["sqlite3"], indirect=True)  # the same in each database
DRIVERS = {"sqlite3": "sqlite", "psycopg": "postgresql+psycopg", "pymysql": "mysql+pymysql"}


@pytest.fixture(params=list(DRIVERS))
def place(request: pytest.FixtureRequest) -> Database:
    return database(request.param, request)


@pytest.fixture
def engine(place: Database) -> Iterator[Engine]:
    url = place.url.partition("://")[2] or f"/{place.url}"
    engine = create_engine(f"{DRIVERS[place.driver]}://{url}")
    place.do("DROP TABLE IF EXISTS book")
    place.do("DROP TABLE IF EXISTS item")
    place.do("DROP TABLE IF EXISTS holdfast_fence")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        create_table(connection)
        connection.execute(Item.__table__.insert().values(id=7, stock=10))  # type: ignore[attr-defined]
    yield engine
    Base.metadata.drop_all(engine)  # other tests have an item, too
    engine.dispose()


def sell(engine: Engine, fence: int | None, stock: int, book: bool = False) -> None:
    with Session(engine) as session, session.begin():
        item: Any = session.get(Book if book else Item, 8 if book else 7, with_for_update=True)
        if fence is not None:
            item.fence = fence
        item.stock = stock


def found(engine: Engine) -> tuple[int, int]:
    with Session(engine) as session:
        stock, fence = session.execute(select(Item.stock, Item.fence)).one()
        return stock, fence


def test_an_object_of_a_late_holder_is_not_written(engine: Engine) -> None:
    sell(engine, 42, 9)
    sell(engine, 42, 8)
    with pytest.raises(holdfast.StaleFence, match="41 of 'Item 7' is stale.* 42"):
        sell(engine, 41, 1)
    assert found(engine) == (8, 42)
    sell(engine, None, 7)  # without a fence of its own it gets that of the row
    assert found(engine) == (7, 42)


def test_an_object_that_a_later_holder_wrote_since_it_was_read_is_not_written(
    engine: Engine, place: Database
) -> None:
    with Session(engine) as late:
        item: Any = late.get(Item, 7)
        item.fence = 41
        item.stock = 1
        if place.driver == "sqlite3":
            late.rollback()  # SQLite refuses the other writer while this one reads
            item = late.get(Item, 7)
            late.commit()
            item.fence, item.stock = 41, 1
        sell(engine, 42, 9)
        with pytest.raises(Exception, match="41 of 'Item 7' is stale|could not serialize"):
            late.commit()
    assert found(engine) == (9, 42)


@pytest.mark.parametrize("place", ["psycopg", "pymysql"], indirect=True)
def test_a_late_holder_waits_while_the_row_is_locked(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        item: Any = session.get(Item, 7, with_for_update=True)
        late = Thread(lambda: sell_blindly(engine))
        until(lambda: engine.pool.checkedout() == 2)  # type: ignore[attr-defined]
        item.fence = 42
        item.stock -= 1
    with pytest.raises(holdfast.StaleFence):
        late.finish()
    assert found(engine) == (9, 42)


def sell_blindly(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        session.merge(Item(id=7, stock=1, fence=41))


def test_an_object_of_a_late_holder_is_not_deleted(engine: Engine) -> None:
    sell(engine, 42, 9)
    with Session(engine) as session:
        item: Any = session.get(Item, 7)
        item.fence = 41
        session.delete(item)
        with pytest.raises(holdfast.StaleFence):
            session.commit()
        session.rollback()
        item = session.get(Item, 7)
        item.fence = 43
        session.delete(item)
        session.commit()
        assert session.get(Item, 7) is None


@HERE
def test_an_orphan_of_a_late_holder_is_not_deleted(engine: Engine) -> None:
    with Session(engine, expire_on_commit=False) as late:
        crate = Crate(id=1, bottles=[Bottle(id=8, fence=41), Bottle(id=9, fence=41)])
        late.add(crate)
        late.commit()
        with Session(engine) as session, session.begin():
            session.get_one(Bottle, 8).fence = 42
        del crate.bottles[0]
        with pytest.raises(holdfast.StaleFence, match="41 of 'Bottle 8' is stale.* 42"):
            late.commit()
        late.rollback()
        del crate.bottles[1]
        late.commit()
        assert late.scalars(select(Bottle.id)).all() == [8]


@HERE
def test_a_row_that_is_gone_is_no_stale_fence(engine: Engine) -> None:
    with Session(engine) as session:
        item: Any = session.get(Item, 7)
        session.commit()
        item.fence, item.stock = 42, 1
        with engine.begin() as connection:
            connection.exec_driver_sql("DELETE FROM item")
        with pytest.raises(Exception, match="expected to update 1 row|has been deleted"):
            session.commit()


@HERE
def test_the_column_may_be_in_the_table_of_a_parent(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        session.add(Book(id=8, stock=3, pages=300, fence=40))
    sell(engine, 42, 2, book=True)
    with pytest.raises(holdfast.StaleFence, match="41 of 'Book 8'"):
        sell(engine, 41, 1, book=True)


@HERE
def test_a_flush_that_writes_nothing_checks_nothing(engine: Engine) -> None:
    sell(engine, 42, 9)
    with Session(engine) as session, session.begin():
        item: Any = session.get(Item, 7)
        item.stock = 9
        session.flush()


@HERE
def test_a_statement_checks_its_fence_by_hand(engine: Engine) -> None:
    sell(engine, 42, 9)
    with engine.begin() as connection:
        statement = update(Item).where(Item.id == 7, Item.fence <= 41)
        assert connection.execute(statement.values(stock=1, fence=41)).rowcount == 0


def test_a_session_and_a_connection_are_guarded(engine: Engine) -> None:
    with Session(engine) as session, session.begin():
        guard(session, "stock", 42)
        guard(session, "stock", 42)
    with engine.begin() as connection:
        with pytest.raises(holdfast.StaleFence, match="41 of 'stock'"):
            guard(connection, "stock", 41)
        with pytest.raises(ValueError, match="name must have"):
            guard(connection, "", 42)
    free = engine.execution_options(isolation_level="AUTOCOMMIT")
    with free.connect() as connection, pytest.raises(RuntimeError, match="autocommit mode"):
        guard(connection, "stock", 43)


def test_another_database_is_refused() -> None:
    engine = create_engine("sqlite://")
    engine.dialect.name = "oracle"
    with engine.connect() as connection, pytest.raises(ValueError, match="not the database 'orac"):
        guard(connection, "stock", 42)
    engine.dispose()
