# What of SWIG's own module the package uses: the structs of holdfast.h. Importing it also tells
# the extension how to give locks and holds back.

from . import _holdfast

class hf_client_options:  # noqa: N801
    this: object
    idle_connections: int
    connect_timeout_ms: int
    command_timeout_ms: int
    keepalive_ms: int
    max_connections: int
    lazy: int
    client_name: str
    fence_life_ms: int

class hf_lock_options:  # noqa: N801
    this: object
    renew: int
    lease_ms: int
    reentrant: int
    heal: int
    max_hold_ms: int
    replicas: int
    replica_timeout_ms: int

class hf_acquire_options:  # noqa: N801
    this: _holdfast.AcquireOptions
    flags: int
    lease_ms: int
    renew: int

class hf_stats:  # noqa: N801
    this: object
    held: int
    waiting: int
    acquired: int
    waited: int
    waited_us: int
    refused: int
    unknown: int
    released: int
    lost: int
    renewed: int

class hf_lock_info:  # noqa: N801
    this: object
    held: int
    foreign: int
    count: int
    fence: int
    remaining_ms: int
    waiters: int
    held_ms: int
