-- release: end one hold; with its last hold the lock goes to the next waiter.
--
-- KEYS  K, last fence, queue; and the dead-id key of the hold id if bury is 1
-- ARGV  hold id; and if anything but the hold is to be seen to:
--       bury (0, 1): some copy of its acquire may still be under way; refuse it
--       pushed (0, 1): the hold was granted by a message and never claimed
--       member: take this queue member out too (a cancelled wait), or empty
-- Answers  0 not held; 1 released; 2 released, and more of the queue to skip
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local field = 'h' .. ARGV[1]

-- The common case, spelt out for speed: its only hold (three fields, and K
-- lives, so it does), nobody queued, nothing else to see to.
if not ARGV[2] and redis.pcall('HLEN', K) == 3 and redis.call('EXISTS', Q) == 0
  and redis.call('HDEL', K, field) == 1 then
  redis.call('DEL', K)
  return 1
end

local bury, member = ARGV[2] == '1', ARGV[4] or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = (now - now % 1000) / 1000
local stored = redis.call('GET', F)
--@include _fence.lua
--@include _live.lua
--@include _grant.lua

-- Again its only hold, but others wait: K passes from one to the next as it is.
if not bury and member == '' and redis.pcall('HLEN', K) == 3
  and redis.call('HDEL', K, field) == 1 then
  local granted, more = grant({})
  if not granted then
    redis.call('DEL', K)
    if mark then remember(last) end
  end
  return more and 2 or 1
end

local held = redis.pcall('HMGET', K, 'hf1', field)
if held.err then
  if not string.find(held.err, 'WRONGTYPE', 1, true) then return held end
  held = {}
end
local mine = held[1] and tonumber(held[2] or nil)

-- A removal first, even of nothing: after it a full server allows the rest.
if member ~= '' or bury then
  redis.call('ZREM', Q, member)
end
if bury then
  redis.call('SET', KEYS[4], '1', 'PX', 600000)
end
if not mine then return 0 end
if not live(mine) then return 0 end

-- The latest of the other holds' expiries; nil: there is no other.
local fields, latest = redis.call('HGETALL', K), nil
for i = 1, #fields, 2 do
  local name = fields[i]
  if name ~= field and name ~= 'hf1' and string.sub(name, 1, 1) == 'h' then
    local ends = tonumber(fields[i + 1]) or -1
    if not live(ends) then
      -- It stays for as long as a late copy of its acquire might come.
      if ends < now_ms - 600000 then redis.call('HDEL', K, name) end
    elseif latest ~= 0 then
      latest = ends == 0 and 0 or math.max(latest or 0, ends)
    end
  end
end
if latest then
  redis.call('HDEL', K, field)
  if latest > 0 then redis.call('PEXPIREAT', K, latest) end
  if mark then remember(last) end
  return 1
end
redis.call('DEL', K)
local granted, more = grant({})
if mark and not granted then remember(last) end
return more and 2 or 1
