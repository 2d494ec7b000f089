-- A member of the queue: the hold id (32 bytes), then as netstrings the
-- channel, the owner, the lease and the timeout in ms, and reentrant (0 or 1).
local function parse(member)
  local size, at = string.match(member, '^(%d%d?%d?%d?%d?):()', 33)
  if not size then return end
  local channel = string.sub(member, at, at + size - 1)
  local length, from = string.match(member, '^,(%d%d?%d?%d?%d?):()', at + size)
  if not length then return end
  local lease, timeout = string.match(member, '^,%d+:(%d+),%d+:(%d+),%d+:[01],$', from + length)
  return string.sub(member, 1, 32), channel, string.sub(member, from, from + length - 1),
    lease, tonumber(timeout)
end
