"""No memory for Python objects."""

from __future__ import annotations

import select
from typing import Any

import pytest

import holdfast
from holdfast import _holdfast
from holdfast._lock import kept, loose


def test_a_completion_is_returned_whatever_allocation_fails(
    client: holdfast.Client, lock: holdfast.Lock
) -> None:
    hooks = pytest.importorskip("_testcapi")
    core, here = client._core, client._here()
    ready = select.poll()
    ready.register(core.hf_client_fd(here), select.POLLIN)
    for failing in range(24):  # the value takes some 16 allocations
        core.hf_lock_acquire_start(lock._handle, b"owner", 10000, kept, 1000 + failing)
        assert ready.poll(20000)
        told: list[Any] = [None]
        hooks.set_nomemory(failing, failing + 1)
        try:
            core.hf_client_next(here, told)
        except MemoryError:  # before the lock was taken
            pass
        finally:
            hooks.remove_mem_hooks()
        if told[0] is None:
            core.hf_client_next(here, told)
        kind, _, op, _, hold, *_ = told[0]
        assert (kind, op) == (_holdfast.HF_KIND_ACQUIRE, 1000 + failing)
        assert hold is not None
        assert lock.locked()
        core.hf_hold_release(hold)
        del told, hold
        assert not lock.locked()


@pytest.mark.parametrize("begins", [False, True], ids=["acquire", "once"])
def test_no_hold_is_left_without_its_object_whatever_allocation_fails(
    client: holdfast.Client, lock: holdfast.Lock, begins: bool
) -> None:
    hooks = pytest.importorskip("_testcapi")
    core, outcomes = client._core, set()
    for failing in range(16):
        got: list[_holdfast.Hold] = []
        hooks.set_nomemory(failing, failing + 1)
        try:
            if begins:
                core.hf_once_begin(lock._handle, 0, loose, None, got)
            else:
                core.hf_lock_acquire_as(lock._handle, None, 0, kept, got)
        except MemoryError:
            pass
        finally:
            hooks.remove_mem_hooks()
        outcomes.add(bool(got))
        assert lock.locked() == bool(got), failing
        for hold in got:
            core.hf_hold_release(hold)
        assert not lock.locked()
    assert outcomes == {True, False}  # else the race was never tried
