# The extension, as python.i makes it: the functions of holdfast.h with raw handles.

from typing import Final, NewType

Client = NewType("Client", object)
Lock = NewType("Lock", object)
Hold = NewType("Hold", object)

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

HF_FOREVER: Final[int]
HF_NEVER: Final[int]
HF_LEASE_MIN: Final[int]
HF_LEASE_MAX: Final[int]
HF_DEFAULT: Final[int]
HF_ON: Final[int]
HF_OFF: Final[int]
HF_KEEP: Final[int]
HF_BREAK_FOREIGN: Final[int]
HF_HELD: Final[int]
HF_LOST: Final[int]
HF_RELEASED: Final[int]

def hf_version() -> str: ...
def hf_client_open(url: str, options: object) -> Client: ...
def hf_client_close(client: Client) -> None: ...
def hf_client_set_interrupt(client: Client) -> None: ...
def hf_lock_open(client: Client, name: bytes, owner: bytes | None, options: object) -> Lock: ...
def hf_lock_acquire_as(
    lock: Lock, owner: bytes | None, timeout_ms: int, options: object, hold_out: list[Hold]
) -> None: ...
def hf_lock_release_as(lock: Lock, owner: bytes | None) -> None: ...
def hf_lock_count_as(lock: Lock, owner: bytes | None) -> int: ...
def hf_lock_inspect(lock: Lock, info: object) -> bytes: ...
def hf_lock_break(lock: Lock, fence: int, flags: int) -> None: ...
def hf_hold_release(hold: Hold) -> None: ...
def hf_hold_renew(hold: Hold) -> None: ...
def hf_hold_extend(hold: Hold, duration_ms: int, replace: int) -> None: ...
def hf_hold_check(hold: Hold) -> None: ...
def hf_hold_fence(hold: Hold) -> int: ...
def hf_hold_remaining_ms(hold: Hold) -> int: ...
def hf_hold_state(hold: Hold) -> int: ...
