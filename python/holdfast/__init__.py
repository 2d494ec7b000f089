"""Holdfast: a distributed lock on Redis.

client = holdfast.connect("redis://localhost")
lock = client.lock("stock")
with lock as hold:
    write(hold.fence)
"""

from ._aio import AsyncHold, AsyncLock, AsyncLost
from ._alarm import Alarm
from ._async_client import AsyncClient, AsyncLocks
from ._client import Client, connect
from ._errors import (
    AuthenticationError,
    ClosedError,
    ConnectError,
    FingerprintMismatch,
    ForkedError,
    KeptError,
    LimitDiffers,
    LockDeadlock,
    LockError,
    LockLost,
    LockNotOwnedError,
    LockNotReplicated,
    LockTimeout,
    LockUnknown,
    OutcomeSettled,
    OutcomeUnknown,
    ProtocolError,
    ResultNotKept,
    ServerError,
    StaleFence,
    UnsupportedError,
)
from ._gate import AsyncGate, Gate, GateFull
from ._hold import Hold, Lost
from ._holdfast import hf_version
from ._leader import AsyncLeader, Leader
from ._lock import Lock
from ._locked import quote
from ._look import Holder, LockInfo, Locks, Origin, Progress, Waiter
from ._once import AsyncOutcome, AsyncTurn, Outcome, Turn
from ._options import LockOptions
from ._several import AsyncHolds, AsyncLocksAll, Holds, LocksAll
from ._stats import Counts, Histogram, Stats
from ._survey import Finding
from ._trouble import Trouble

__version__ = hf_version()

__all__ = [
    "Alarm",
    "AsyncClient",
    "AsyncGate",
    "AsyncHold",
    "AsyncHolds",
    "AsyncLeader",
    "AsyncLock",
    "AsyncLocks",
    "AsyncLocksAll",
    "AsyncLost",
    "AsyncOutcome",
    "AsyncTurn",
    "AuthenticationError",
    "Client",
    "ClosedError",
    "ConnectError",
    "Counts",
    "Finding",
    "FingerprintMismatch",
    "ForkedError",
    "Gate",
    "GateFull",
    "Histogram",
    "Hold",
    "Holder",
    "Holds",
    "KeptError",
    "Leader",
    "LimitDiffers",
    "Lock",
    "LockDeadlock",
    "LockError",
    "LockInfo",
    "LockLost",
    "LockNotOwnedError",
    "LockNotReplicated",
    "LockOptions",
    "LockTimeout",
    "LockUnknown",
    "Locks",
    "LocksAll",
    "Lost",
    "Origin",
    "Outcome",
    "OutcomeSettled",
    "OutcomeUnknown",
    "Progress",
    "ProtocolError",
    "ResultNotKept",
    "ServerError",
    "StaleFence",
    "Stats",
    "Trouble",
    "Turn",
    "UnsupportedError",
    "Waiter",
    "connect",
    "quote",
]

# Tracebacks and pickles show the module that users import.
for _name in __all__:
    globals()[_name].__module__ = __name__
