-- break: take the lock from its holder, and grant it to the next waiter.
--
-- KEYS  K, last fence, queue
-- ARGV  the victim's fence (0: a foreign lock), foreign (1: delete one too)
-- Answers  0 held by another, nothing done; 1 done, or it was free; 2 done, and
--       more of the queue to skip
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local held = redis.pcall('HMGET', K, 'hf1', 'f')
local exists = redis.call('EXISTS', K) == 1
if held.err then
  if not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
  held = {}
end
if exists then
  if held[1] then
    if tonumber(held[2]) ~= tonumber(ARGV[1]) then return 0 end
  elseif ARGV[2] ~= '1' then
    return 0
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local stored = redis.call('GET', F)
--@include _fence.lua
--@include _grant.lua
if exists then redis.call('DEL', K) end
local granted, more = grant({}, not exists and mark)
if exists and mark and not granted then remember(last) end
return more and 2 or 1
