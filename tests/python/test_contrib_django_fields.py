"""holdfast.contrib.django.fields, in real databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import holdfast
import holdfast.sql
from conftest import Databases

pytest.importorskip("django")
pytest.importorskip("psycopg")
pytest.importorskip("pymysql")

import pymysql
from django.db import DatabaseError, connections, models, transaction

import django_site  # noqa: F401
from holdfast.contrib.django.fields import FenceField

pymysql.version_info = (2, 2, 7, "final", 0)  # Django requires mysqlclient, by its version
pymysql.install_as_MySQLdb()


class Kept(models.Model):
    fence = FenceField()

    class Meta:
        abstract = True


class Item(Kept):
    stock = models.IntegerField()

    class Meta:
        app_label = "warehouse"


class Book(Item):
    pages = models.IntegerField(default=0)

    class Meta:
        app_label = "warehouse"


class Proxy(Item):
    class Meta:
        app_label = "warehouse"
        proxy = True


class ProxyOfProxy(Proxy):
    class Meta:
        app_label = "warehouse"
        proxy = True


@pytest.fixture(params=["sqlite3", "postgresql", "mysql"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the alias of a database that has one item."""
    alias = request.param
    engine: dict[str, Any] = {"ENGINE": f"django.db.backends.{alias}", "NAME": ":memory:"}
    if alias != "sqlite3":
        urls: Databases = request.getfixturevalue("databases")
        url = urls.postgresql if alias == "postgresql" else urls.mariadb
        user, _, rest = url.partition("://")[2].partition("@")
        address, _, name = rest.partition("/")
        host, _, port = address.partition(":")
        engine |= {"NAME": name, "USER": user, "HOST": host, "PORT": port}
    if alias == "mysql":
        engine["OPTIONS"] = {"isolation_level": "repeatable read"}  # MySQL's default, not Django's
    connections.databases[alias] = {**connections.databases["default"], **engine}
    connection = connections[alias]
    with connection.cursor() as cursor:
        for table in ("warehouse_book", "warehouse_item", "holdfast_fence"):
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
    with connection.schema_editor() as editor:
        editor.create_model(Item)
        editor.create_model(Book)
    Item.objects.using(alias).create(pk=7, stock=10)
    yield alias
    connection.close()


def test_a_row_of_a_late_holder_is_not_saved(place: str) -> None:
    late = Item.objects.using(place).get()
    now = Item.objects.using(place).get()
    now.fence, now.stock = 42, 9
    now.save()
    now.stock = 8
    now.save()
    late.fence, late.stock = 41, 1
    with pytest.raises(holdfast.StaleFence, match="41 of 'warehouse.Item 7' is stale.* 42"):
        late.save()
    with pytest.raises(holdfast.StaleFence), transaction.atomic(place):
        late.save()
    again = Item.objects.using(place).get()
    assert (again.stock, again.fence) == (8, 42)


def test_some_fields_of_a_row_are_saved_with_the_fence(place: str) -> None:
    now, late = (Item.objects.using(place).get() for _ in range(2))
    now.fence, now.stock = 42, 9
    now.save(update_fields=["stock"])
    late.fence, late.stock = 41, 1
    with pytest.raises(holdfast.StaleFence):
        late.save(update_fields=["stock"])
    again = Item.objects.using(place).get()
    assert (again.stock, again.fence) == (9, 42)


@pytest.mark.parametrize("model", [Item, Proxy, ProxyOfProxy])
def test_a_row_of_a_late_holder_is_not_deleted(place: str, model: type[Item]) -> None:
    now, late = (model.objects.using(place).get() for _ in range(2))
    now.fence = 42
    now.save()
    late.fence = 41
    with pytest.raises(holdfast.StaleFence):
        late.delete()
    now.delete()
    assert not Item.objects.using(place).exists()


def test_a_new_row_is_inserted_and_a_missing_one_is_no_stale_fence(place: str) -> None:
    Item(pk=8, stock=3, fence=41).save(using=place)
    gone = Item.objects.using(place).get(pk=8)
    Item.objects.using(place).filter(pk=8).delete()
    with pytest.raises(DatabaseError, match="did not affect any rows"):
        gone.save(force_update=True)
    gone.save()
    assert Item.objects.using(place).get(pk=8).fence == 41


@pytest.mark.parametrize("place", ["sqlite3"], indirect=True)
def test_a_model_may_inherit_the_field_with_a_table_of_its_own(place: str) -> None:
    Book(pk=8, stock=3, pages=300, fence=42).save(using=place)
    late = Book.objects.using(place).get(pk=8)
    late.fence, late.pages = 41, 1
    with pytest.raises(holdfast.StaleFence, match="41 of 'warehouse.Book 8'"):
        late.save()
    with pytest.raises(holdfast.StaleFence):
        late.delete()
    assert Book.objects.using(place).get(pk=8).pages == 300


@pytest.mark.parametrize("place", ["postgresql", "mysql"], indirect=True)
def test_an_older_snapshot_hides_no_fence(place: str) -> None:
    connection = connections[place]
    other = connection.copy("other")
    connections["other"] = other
    try:
        refused = pytest.raises(Exception, match="41 of .* 42|could not serialize")
        with refused, transaction.atomic(place):
            if place == "postgresql":
                connection.cursor().execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            late: Any = Item.objects.using(place).get()
            Item.objects.using("other").update(fence=42, stock=9)
            late.fence = 41
            late.save()
    finally:
        other.close()
        del connections["other"]


def test_a_cursor_is_guarded(place: str) -> None:
    connection = connections[place]
    with connection.cursor() as cursor:
        holdfast.sql.create_table(cursor)
        with transaction.atomic(place):
            holdfast.sql.guard(cursor, "stock", 42)
        with pytest.raises(holdfast.StaleFence), transaction.atomic(place):
            holdfast.sql.guard(cursor, "stock", 41)
        with pytest.raises(RuntimeError, match="autocommit mode"):
            holdfast.sql.guard(cursor, "stock", 43)


def test_a_migration_has_the_field() -> None:
    _, path, args, options = FenceField().deconstruct()
    assert path == "holdfast.contrib.django.fields.FenceField"
    assert FenceField(*args, **options).default == 0
