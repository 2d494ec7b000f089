# The part of SWIG's own module that the package uses: the structs of holdfast.h. Importing it also
# shows the extension how to give locks and holds back.

from collections.abc import Sequence

from . import _holdfast

class hf_client_options:  # noqa: N801
    this: object
    lazy: int
    connect_timeout_ms: int
    command_timeout_ms: int
    keepalive_ms: int
    client_name: str
    fence_life_ms: int
    count_names: int
    names_max: int
    alarm_timeouts: int
    alarm_window_ms: int
    trouble: int

class hf_lock_options:  # noqa: N801
    this: object
    renew: int
    lease_ms: int
    reentrant: int
    heal: int
    max_hold_ms: int
    replicas: int
    mode: int
    replica_timeout_ms: int
    permits: int
    weight: int
    ahead_ms: int
    count_name: int
    alarm_timeouts: int
    alarm_window_ms: int
    noted: bytes
    def set_note(self, note: bytes) -> None: ...

class hf_acquire_options:  # noqa: N801
    this: _holdfast.AcquireOptions
    flags: int
    lease_ms: int
    renew: int
    def set_note(self, note: bytes) -> None: ...

class hf_histogram:  # noqa: N801
    this: object
    sum_us: int
    counts: Sequence[int]

class hf_stats:  # noqa: N801
    this: object
    held: int
    waiting: int
    acquired: int
    queued: int
    answered_done: int
    answered_failed: int
    answered_unknown: int
    answered_mismatch: int
    busy: int
    timed_out: int
    canceled: int
    interrupted: int
    deadlocks: int
    unreplicated: int
    unknown: int
    unreachable: int
    failed: int
    released: int
    kept: int
    begun: int
    finished_done: int
    finished_failed: int
    finished_unknown: int
    finished_retry: int
    finished_unkept: int
    lost_expired: int
    lost_unreachable: int
    lost_gone: int
    renewed: int
    alarms: int
    names: int
    connections: int
    reconnects: int
    wait: hf_histogram
    hold: hf_histogram

class hf_lock_info:  # noqa: N801
    this: object
    held: int
    foreign: int
    shared: int
    count: int
    fence: int
    remaining_ms: int
    waiters: int
    held_ms: int
    result_ms: int
    moving: int
    permits: int
    per_ms: int

class hf_locks_options:  # noqa: N801
    this: object
    rate: int

class hf_progress:  # noqa: N801
    this: object
    locks: int
    keys_seen: int
    keys: int
    refused: int
    commands: int
    round_trips: int
    answer_us: int

class hf_owner_parts:  # noqa: N801
    this: object
    kind: int
    pid: int
    serial: int
    client_id: str
    client_name: str
    host: str
