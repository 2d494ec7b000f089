-- claim: give a pushed grant its full lease, and remove its mark.
--
-- KEYS  K, last fence
-- ARGV  hold id, lease in ms (0: never); write (1): change something in any case,
--       so that there is something to WAIT for
-- Answers  as renew
local K, F = KEYS[1], KEYS[2]
local lease = tonumber(ARGV[2])
if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
  return redis.error_reply('HOLDFAST lease out of bounds')
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local stored = redis.call('GET', F)
--@include _fence.lua
--@include _live.lua
--@include _renew.lua
local left = renew(K, ARGV[1], lease, '0')
if type(left) == 'table' then return left end
-- If the hold stands, the mark is its own. PERSIST or PEXPIREAT went before, or the expiry
-- was right already: the lease is claimed.
if left ~= -2 and left ~= -3 and (mark or ARGV[3] == '1') then
  redis.pcall('PEXPIRE', F, 86400000)
  remember(stored and last or tonumber(redis.call('HGET', K, 'f')))
end
return { now, left }
