-- cancel: leave the queue; if the lock is granted already, answer the grant.
--
-- KEYS  K, last fence, queue, dead-id key of the hold id
-- ARGV  hold id; bury (0, 1) as for release; queue member
-- Answers  as acquire: held, or busy
local K, Q = KEYS[1], KEYS[3]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
--@include _live.lua
local ttl = redis.call('PTTL', K)
local held = redis.pcall('HMGET', K, 'hf1', 'f', 'h' .. ARGV[1])
if held.err then
  if not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
  held = {}
end
local mine = tonumber(held[3] or nil)
redis.call('ZREM', Q, ARGV[3])
if held[1] and mine and live(mine) then
  return { now, ttl, 1, tonumber(held[2]), remaining(mine) }
end
if ARGV[2] == '1' then
  redis.call('SET', KEYS[4], '1', 'PX', 600000)
end
return { now, ttl, 0, 0, 0 }
