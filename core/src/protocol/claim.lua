-- claim: bring a pushed grant to its full lease, and take its mark away.
--
-- KEYS  K, last fence
-- ARGV  hold id, lease in ms (0: never)
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
-- Only a hold that stands: the mark is then its own. PERSIST or PEXPIREAT went
-- before, or nothing needed to move and the lease is as good as claimed.
if left ~= -2 and left ~= -3 and mark then
  redis.pcall('PEXPIRE', F, 86400000)
  remember(last)
end
return { now, left }
