"""A client of the format before weights and stored limits, beside one of today.

It is refused, and changes nothing, or it is right: docs/protocol.md. Its scripts are kept here as
they
were: `take` as a whole, and the parts of `acquire` that read F and K and joined readers.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
import redis

import holdfast

TAKE = """
local call, pcall, K = redis.call, redis.pcall, KEYS[1]
if call('EXISTS', K) == 1 then return -1 end
local h, owner, lease = ARGV[1], ARGV[2], ARGV[3]
local digits = #lease
if #h ~= 33 or #owner < 1 or #owner > 4096 or digits < 2 or lease < '1'
  or digits > 11 and (digits > 12 or lease > '315360000000') then
  return 0
end
local time = call('TIME')
local fence = time[1] .. time[2]
if #fence ~= 16 then fence = time[1] .. string.sub('00000' .. time[2], -6) end
if fence <= ARGV[4] then return 0 end
call('HSET', K, h .. fence, owner)
local done = pcall('PEXPIRE', K, lease)
local old = done == 1 and pcall('SET', KEYS[2], fence, 'GET', 'PX', ARGV[5] or '86400000')
if done == 1 and (not old or (#old == 16 and old < fence)) then return fence end
if pcall('DEL', K) ~= 1 then pcall('HDEL', K, h .. fence) end
if done ~= 1 then return done end
if old.err then return old end
local ends = tonumber(string.sub(old, 1, 16)) or 0
pcall('SET', KEYS[2], old, 'PXAT',
  string.format('%.0f', math.floor(math.max(ends, tonumber(fence)) / 1000)
    + (#old == 16 and ARGV[5] or 86400000)))
return 0
"""

ACQUIRE = """
local K, F, S = KEYS[1], KEYS[2], KEYS[3]
local call, sub = redis.call, string.sub
local stored = call('GET', F)
local v, size = call('HGET', K, 'hf1'), call('HLEN', K)
if not v then
  local name = size == 1 and call('HKEYS', K)[1] or ''
  if size == 0 then return 'free' end
  return string.find(name, '^h%x+$') and #name == 49 and 'taken' or 'foreign'
elseif string.find(v, '^[12]', 33) then
  return 'one'
elseif sub(v, 33, 33) ~= 'n' then
  return 'foreign'
end
local n, permits = call('ZCARD', S), tonumber(ARGV[3])
if sub(v, 50, 50) ~= 's' or n >= permits then return 'busy' end
local time = call('TIME')
local stamp = time[1] .. sub('00000' .. time[2], -6)
call('ZADD', S, sub(stamp, 1, 13) + 60000, ARGV[1])
call('HSET', K, 'h' .. ARGV[1], 's' .. stamp .. '--------------------------------' .. ARGV[2])
return 'joined'
"""


class Older:
    """Sends the requests of a client of that format."""

    def __init__(self, raw: redis.Redis, name: str) -> None:
        """Begin with a new id."""
        tag = f"{{{name}}}{name}:hf1:"
        self.key, self._last, self._ends = name, f"{tag}f", f"{tag}s"
        self._queue = f"{tag}q"
        self._id = uuid.uuid4().hex
        self._raw = raw

    def take(self) -> object:
        """Acquire a lock that is probably free."""
        script = self._raw.register_script(TAKE)
        return script([self.key, self._last], [f"h{self._id}", "older", 60000, "0" * 16])

    def acquire(self, permits: int) -> object:
        """Join readers; return the form that it found in K."""
        script = self._raw.register_script(ACQUIRE)
        return script([self.key, self._last, self._ends], [self._id, "older", permits])

    def keys(self) -> list[bytes | None]:
        """Return everything that the server stores of the lock."""
        return [self._raw.dump(key) for key in (self.key, self._last, self._ends, self._queue)]


@pytest.fixture
def older(raw: redis.Redis, name: str) -> Older:
    """Make such a client."""
    return Older(raw, name)


def refused(older: Older, ask: Callable[[], object]) -> None:
    """Check that the server refuses the request, and that nothing is changed."""
    before = older.keys()
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        ask()
    assert older.keys() == before


def test_an_older_client_is_refused_while_a_limit_is_stored(
    client: holdfast.Client, name: str, older: Older
) -> None:
    client.limit(name, permits=2)
    refused(older, older.take)
    refused(older, lambda: older.acquire(9))
    lock = client.lock(name, reentrant=False).shared()
    with lock.hold(timeout=0) as first:
        refused(older, lambda: older.acquire(9))
        with lock.hold(timeout=0) as second:
            refused(older, lambda: older.acquire(9))
            assert second.fence > first.fence
            assert not lock.acquire(timeout=0)
    assert client.lock(name).inspect().limit == 2
    fence = second.fence
    client.limit(name, permits=0)
    taken = older.take()
    assert isinstance(taken, bytes)
    assert int(taken) > fence


def test_a_heavy_hold_is_another_librarys_to_an_older_client(
    client: holdfast.Client, name: str, older: Older
) -> None:
    pool = client.lock(name, permits=5, reentrant=False)
    with pool.shared(1).hold(timeout=0), pool.shared(1).hold(timeout=0):
        with pool.shared(2).hold(timeout=0):
            before = older.keys()
            assert older.take() == -1
            assert older.acquire(5) == b"foreign"
            assert older.keys() == before
        assert older.acquire(5) == b"joined"  # all holds weigh 1 again
        assert client.lock(name).inspect().count == 3
        assert not pool.shared(3).acquire(timeout=0)
        assert pool.shared(2).acquire(timeout=0)
        pool.shared(2).release()


def test_an_older_client_takes_turns_with_todays(
    client: holdfast.Client, name: str, older: Older
) -> None:
    taken = older.take()
    assert isinstance(taken, bytes)
    assert not client.lock(name).acquire(timeout=0)
    assert client.lock(name).inspect().fence == int(taken)
    client.lock(name).force_release(int(taken))
    with client.lock(name).hold(timeout=0) as hold:
        assert hold.fence > int(taken)
        assert older.take() == -1
        assert older.acquire(5) == b"taken"
