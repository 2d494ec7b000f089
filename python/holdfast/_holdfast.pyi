# The extension, as python.i makes it: the functions of holdfast.h with raw handles.

from typing import Any, Final, NewType, Protocol, TypeAlias

Client = NewType("Client", object)
Lock = NewType("Lock", object)
Hold = NewType("Hold", object)
AcquireOptions = NewType("AcquireOptions", object)
Locks = NewType("Locks", object)

# A name, holders (owner, note, mode, fence, count, held_ms, remaining_ms, kept, weight), and
# waiters (owner, note, mode, permits, waited_ms, timeout_ms, weight).
View: TypeAlias = tuple[
    bytes,
    list[tuple[bytes, bytes, int, int, int, int, int, int, int]],
    list[tuple[bytes, bytes, int, int, int, int, int]],
]

# State, at most once, printed, fence, since_ms, ttl_ms, length, owner, note.
OnceInfo: TypeAlias = tuple[int, int, int, int, int, int, int, bytes, bytes]

HF_EXCLUSIVE: Final[int]
HF_SHARED: Final[int]

HF_EINVAL: Final[int]
HF_ENOMEM: Final[int]
HF_EBUSY: Final[int]
HF_ETIMEOUT: Final[int]
HF_ENOTHELD: Final[int]
HF_ELOST: Final[int]
HF_EUNKNOWN: Final[int]
HF_ECANCELED: Final[int]
HF_EINTR: Final[int]
HF_ECONNECT: Final[int]
HF_EAUTH: Final[int]
HF_ESERVER: Final[int]
HF_EPROTOCOL: Final[int]
HF_EUNSUPPORTED: Final[int]
HF_ECLOSED: Final[int]
HF_EFORKED: Final[int]
HF_EREPLICAS: Final[int]
HF_EDONE: Final[int]
HF_EDEADLOCK: Final[int]
HF_EFAILED: Final[int]
HF_EOUTCOME: Final[int]
HF_EMISMATCH: Final[int]
HF_ESETTLED: Final[int]
HF_ELIMIT: Final[int]

HF_FOREVER: Final[int]
HF_NEVER: Final[int]
HF_STORED: Final[int]
HF_LEASE_MIN: Final[int]
HF_LEASE_MAX: Final[int]
HF_LEASE_DEFAULT: Final[int]
HF_RESULT_MAX: Final[int]
HF_NOTE_MAX: Final[int]
HF_ONCE_NONE: Final[int]
HF_ONCE_RUNNING: Final[int]
HF_ONCE_UNKNOWN: Final[int]
HF_ONCE_RETRY: Final[int]
HF_ONCE_DONE: Final[int]
HF_ONCE_FAILED: Final[int]
HF_SETTLE_FORCE: Final[int]
HF_DEFAULT: Final[int]
HF_AHEAD_MAX: Final[int]
HF_PERMITS_MAX: Final[int]
HF_ON: Final[int]
HF_OFF: Final[int]
HF_ACQUIRE_KEEP: Final[int]
HF_ACQUIRE_WHOLE: Final[int]
HF_ACQUIRE_AT_MOST_ONCE: Final[int]
HF_BREAK_FOREIGN: Final[int]
HF_STATE_HELD: Final[int]
HF_STATE_LOST: Final[int]
HF_STATE_RELEASED: Final[int]
HF_CAUSE_NONE: Final[int]
HF_CAUSE_EXPIRED: Final[int]
HF_CAUSE_UNREACHABLE: Final[int]
HF_CAUSE_GONE: Final[int]
HF_OK: Final[int]
HF_FINDING_GOOD: Final[int]
HF_FINDING_NOTE: Final[int]
HF_FINDING_WARNING: Final[int]
HF_KIND_NONE: Final[int]
HF_KIND_ACQUIRE: Final[int]
HF_KIND_RELEASE: Final[int]
HF_KIND_LOSS: Final[int]
HF_KIND_RENEWAL: Final[int]
HF_KIND_ALARM: Final[int]
HF_KIND_TROUBLE: Final[int]
HF_KIND_FAILOVER: Final[int]
HF_JOIN_MAX: Final[int]
HF_BUCKETS: Final[int]
HF_BUCKET_US: Final[int]

def hf_version() -> str: ...
def hf_owner_parse(owner: bytes, parts: object) -> int: ...

# The functions of the extension, and of the memory of holdfast.testing, which can replace it.
class Core(Protocol):
    def hf_client_open(self, url: str, options: object) -> Client: ...
    def hf_client_close(self, client: Client) -> None: ...
    def hf_client_stop(self, client: Client) -> None: ...
    def hf_client_abandon(self, client: Client) -> None: ...
    def hf_client_stats(self, client: Client, stats: object) -> None: ...
    def hf_client_name_stats(self, client: Client, index: int, stats: object) -> bytes: ...
    def hf_client_set_interrupt(self, client: Client) -> None: ...
    def hf_client_owner(self, client: Client, kind: str, serial: int) -> bytes: ...
    def hf_client_kept(self, client: Client, owner: bytes) -> bytes | None: ...
    def hf_client_fd(self, client: Client) -> int: ...
    def hf_client_warning(self, client: Client) -> str: ...
    def hf_client_ping(self, client: Client) -> None: ...
    def hf_client_survey(
        self, client: Client, server: int, name: bytes | None
    ) -> list[tuple[int, str, str, str]]: ...
    def hf_client_next(self, client: Client, told: list[Any]) -> None: ...
    def hf_lock_open(
        self, client: Client, name: bytes, owner: bytes | None, options: object | None
    ) -> Lock: ...
    def hf_lock_acquire_as(
        self,
        lock: Lock,
        owner: bytes | None,
        timeout_ms: int,
        options: object,
        hold_out: list[Hold],
    ) -> None: ...
    def hf_lock_acquire_start(
        self, lock: Lock, owner: bytes | None, timeout_ms: int, options: object, op: int
    ) -> None: ...
    def hf_lock_acquire_all(
        self,
        locks: list[Lock],
        owner: bytes | None,
        timeout_ms: int,
        options: list[AcquireOptions],
        holds_out: list[Hold],
    ) -> None: ...
    def hf_lock_acquire_all_start(
        self,
        locks: list[Lock],
        owner: bytes | None,
        timeout_ms: int,
        options: list[AcquireOptions],
        op: int,
    ) -> None: ...
    def hf_lock_release_as(self, lock: Lock, owner: bytes | None) -> None: ...
    def hf_lock_current_as(self, lock: Lock, owner: bytes | None, hold_out: list[Hold]) -> None: ...
    def hf_lock_count_as(self, lock: Lock, owner: bytes | None) -> int: ...
    def hf_lock_inspect(self, lock: Lock, first: int, info: object) -> View: ...
    def hf_locks_open(self, client: Client, pattern: bytes, options: object) -> Locks: ...
    def hf_locks_next(self, locks: Locks, info: object) -> View | None: ...
    def hf_locks_progress(self, locks: Locks, progress: object) -> None: ...
    def hf_lock_limit(self, lock: Lock, permits: int, per_ms: int) -> tuple[int, int]: ...
    def hf_lock_break(self, lock: Lock, fence: int, flags: int) -> None: ...
    def hf_lock_adopt(self, lock: Lock, token: bytes, hold_out: list[Hold]) -> None: ...
    def hf_once_begin(
        self,
        lock: Lock,
        timeout_ms: int,
        options: object,
        arguments: bytes | None,
        hold_out: list[Hold],
    ) -> tuple[int, str]: ...
    def hf_once_begin_start(
        self, lock: Lock, timeout_ms: int, options: object, arguments: bytes | None, op: int
    ) -> None: ...
    def hf_once_mark(self, hold: Hold, unknown_ms: int, note: bytes) -> tuple[int, str]: ...
    def hf_once_finish(self, hold: Hold, state: int, result: bytes, ttl_ms: int) -> None: ...
    def hf_once_finish_start(
        self, hold: Hold, state: int, result: bytes, ttl_ms: int, op: int
    ) -> None: ...
    def hf_once_outcome(self, hold: Hold) -> OnceInfo: ...
    def hf_once_look(self, lock: Lock, hold_out: list[Hold]) -> None: ...
    def hf_once_settle(
        self,
        lock: Lock,
        state: int,
        fence: int,
        flags: int,
        result: bytes | None,
        ttl_ms: int,
        note: bytes | None,
    ) -> None: ...
    def hf_hold_result(self, hold: Hold) -> bytes | None: ...
    def hf_hold_hand_over(self, hold: Hold) -> bytes: ...
    def hf_hold_release(self, hold: Hold) -> None: ...
    def hf_hold_renew(self, hold: Hold) -> None: ...
    def hf_hold_extend(self, hold: Hold, duration_ms: int, flags: int) -> None: ...
    def hf_hold_keep(self, hold: Hold, duration_ms: int) -> None: ...
    def hf_hold_keep_at_least(self, hold: Hold, duration_ms: int) -> None: ...
    def hf_hold_check(self, hold: Hold) -> None: ...
    def hf_hold_fence(self, hold: Hold) -> int: ...
    def hf_hold_votes(self, hold: Hold) -> tuple[int, int]: ...
    def hf_hold_remaining_ms(self, hold: Hold) -> int: ...
    def hf_hold_state(self, hold: Hold) -> int: ...
    def hf_hold_cause(self, hold: Hold) -> int: ...
    def hf_hold_number(self, hold: Hold) -> int: ...
    def hf_hold_release_start(self, hold: Hold, op: int) -> None: ...
    def hf_hold_renew_start(self, hold: Hold, op: int) -> None: ...
    def hf_hold_extend_start(self, hold: Hold, duration_ms: int, flags: int, op: int) -> None: ...
    def hf_hold_keep_start(self, hold: Hold, duration_ms: int, op: int) -> None: ...
    def hf_hold_check_start(self, hold: Hold, op: int) -> None: ...
    def hf_op_cancel(self, client: Client, op: int) -> None: ...
