-- release: end one hold. After its last hold the lock goes to the next waiter.
--
-- KEYS  K, last fence, queue; and the dead-id key of the hold id if bury is 1
-- ARGV  hold id; and if there is more to do than to end the hold:
--       bury (0, 1): some copy of its acquire may still be under way; refuse it
--       pushed (0, 1): the hold was granted by a message and never claimed
--       member: take this queue member out too (a cancelled wait), or empty
-- Answers  0 not held; 1 released; 2 released, and more of the queue to skip
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local field = 'h' .. ARGV[1]

-- The common case, written out for speed: it is the only hold (three fields; it is live
-- because K is), the queue is empty, and there is nothing else to do.
if not ARGV[2] and redis.pcall('HLEN', K) == 3 and redis.call('EXISTS', Q) == 0
  and redis.call('HDEL', K, field) == 1 then
  redis.call('DEL', K)
  return 1
end

local bury, member = ARGV[2] == '1', ARGV[4] or ''
local call, match, sub = redis.call, string.match, string.sub
local time, stored = call('TIME'), call('GET', F)

-- The other common case: the only hold, and the first of the waiters is alive. K passes to
-- it without a DEL. Does what grant() does, but keeps numbers as their digits: reading or
-- printing a number costs as much as a command, and numbers of equal length compare as
-- texts.
--@include _member.lua
local alone = false
local simple = not bury and member == ''
local last = simple and match(stored or '', '^%d+')
local rest = sub('00000' .. time[2], -6)
local stamp = time[1] .. rest
if last and #last == 16 and #stamp == 16 and last < stamp and stamp < '9007199254740991'
  and redis.pcall('HLEN', K) == 3 and call('HDEL', K, field) == 1 then
  alone = true
  local head = redis.pcall('ZPOPMIN', Q)
  local next, score = head[1], head[2]
  if next then
    local id, channel, owner, lease, timeout = parse(next)
    local given, shard = tonumber(lease), sub(channel or '', 1, 4) == 'hf:{'
    if given and (given == 0 or (given > 3000 and given <= 315360000000)) then given = 3000 end
    if given and given >= 10 and given <= 3000
      and (timeout == 0 or score + timeout * 1000 > time[1] * 1000000 + time[2])
      and (redis.pcall('PUBSUB', shard and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] or 0) > 0 then
      local ends = string.format('%.0f', time[1] * 1000 + sub(rest, 1, 3) + given)
      call('HSET', K, 'hf1', owner, 'f', stamp, 'h' .. id, ends)
      call('PEXPIREAT', K, ends)
      call('SET', F, stamp .. ' ' .. channel, 'PX', '86400000')
      local sent = redis.pcall(shard and 'SPUBLISH' or 'PUBLISH', channel,
        'g ' .. id .. ' ' .. stamp .. ' ' .. stamp .. ' ' .. given)
      if type(sent) == 'table' then
        call('DEL', K)
        redis.pcall('ZADD', Q, score, next)
        redis.pcall('PEXPIRE', Q, '30000')
        call('SET', F, stamp, 'PX', '86400000')
      end
      return 1
    end
    -- Refused if the slot is being moved and the queue is empty now (a missing key counts as
    -- moved): then the waiter queues again by itself.
    redis.pcall('ZADD', Q, score, next)
  end
end

local now = time[1] * 1000000 + time[2]
local now_ms = (now - now % 1000) / 1000
--@include _fence.lua
--@include _live.lua
--@include _grant.lua

-- Again the only hold.
if alone or (simple and redis.pcall('HLEN', K) == 3 and call('HDEL', K, field) == 1) then
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

-- The latest expiry of the other holds; nil: there is no other hold.
local fields, latest = redis.call('HGETALL', K), nil
for i = 1, #fields, 2 do
  local name = fields[i]
  if name ~= field and name ~= 'hf1' and string.sub(name, 1, 1) == 'h' then
    local ends = tonumber(fields[i + 1]) or -1
    if not live(ends) then
      -- Keep a dead hold for as long as a late copy of its acquire might arrive.
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
