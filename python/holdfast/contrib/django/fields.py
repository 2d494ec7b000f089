"""A model field that refuses the writes of a late holder.

class Item(models.Model):
    stock = models.IntegerField()
    fence = FenceField()

@locked_view("item:{item}")
@transaction.atomic
def buy(request, item):
    found = Item.objects.select_for_update().get(pk=item)
    found.fence = request.hold.fence
    found.stock -= 1
    found.save()
"""

from __future__ import annotations

import functools
from typing import Any

from django.db import connections, models
from django.db.models.signals import class_prepared, pre_delete

import holdfast

__all__ = ["FenceField"]


class FenceField(models.BigIntegerField):
    """The fence of the last holder that wrote a row: a BigIntegerField, by default 0.

        found.fence = request.hold.fence
        found.save()

    save() and delete() raise StaleFence if the row has a greater fence, in the same statement that
    writes. update_fields need not contain the fence.

    Read the row with select_for_update() in the same transaction: then no late holder can write
    between your read and your save. update() of a QuerySet, bulk_update() and raw SQL are not
    checked: filter there by fence__lte, and set the fence.
    """

    description = "The fence of the last holder that wrote the row"

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the options of a BigIntegerField."""
        super().__init__(*args, **{"default": 0, "editable": False, **options})

    def contribute_to_class(self, cls: Any, name: str, *args: Any, **options: Any) -> None:
        """Check the fence of each save() and delete() of that model."""
        super().contribute_to_class(cls, name, *args, **options)
        if cls._meta.abstract:
            return  # each model that inherits the field gets a copy
        inherited = cls._do_update

        # Django's own undocumented method: only it can add a condition to the statement that
        # writes.
        @functools.wraps(inherited)
        def _do_update(
            row: models.Model, base: Any, using: str, pk: Any, values: Any, *rest: Any
        ) -> Any:
            if self not in base.model._meta.local_concrete_fields:
                return inherited(row, base, using, pk, values, *rest)
            fence = getattr(row, self.attname)
            if all(field is not self for field, *_ in values):  # update_fields
                values = [*values, (self, None, fence)]
            checked = base.filter(**{f"{self.attname}__lte": fence})
            written = inherited(row, checked, using, pk, values, *rest)
            if not written:
                self._refuse(row, base.filter(pk=pk), fence)
            return written

        cls._do_update = _do_update
        pre_delete.connect(self._check_delete, sender=cls)
        class_prepared.connect(self._check_proxy)

    def _check_proxy(self, sender: Any, **_: Any) -> None:
        """Check each delete() through a proxy of the model, too: its signals are its own."""
        if sender._meta.concrete_model is self.model:
            pre_delete.connect(self._check_delete, sender=sender)

    def _check_delete(self, instance: Any, using: str, **_: Any) -> None:
        fence = getattr(instance, self.attname)
        rows = self.model._base_manager.using(using).filter(pk=instance.pk)
        if not rows.filter(**{f"{self.attname}__lte": fence}).update(**{self.attname: fence}):
            self._refuse(instance, rows, fence)

    def _refuse(self, row: models.Model, rows: Any, fence: int) -> None:
        """Raise StaleFence, unless there is no such row."""
        if connections[rows.db].in_atomic_block:
            rows = rows.select_for_update()  # not from a snapshot, which may be older
        last = rows.values_list(self.attname, flat=True).first()
        if last is not None and last > fence:
            raise holdfast.StaleFence(f"{row._meta.label} {row.pk}", fence, last)
