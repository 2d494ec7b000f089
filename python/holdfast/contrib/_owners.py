"""Whom a lock takes for one and the same owner."""

from __future__ import annotations

import dataclasses

import holdfast

from .._gevent import in_hub


def alone(options: holdfast.LockOptions) -> holdfast.LockOptions:
    """Give the options with which every call is an owner of its own."""
    return dataclasses.replace(options, reentrant=False)


def apart(options: holdfast.LockOptions) -> holdfast.LockOptions:
    """Give the options with which two requests or tasks at a time are two owners.

    The greenlets of a thread would be one: both would get the lock.
    """
    return alone(options) if in_hub() else options
