-- acquire: take K for one hold id, or look after several that wait for it.
--
-- KEYS  K, last fence, queue, then the dead-id key of each hold id
-- ARGV  floor: the highest fence of K that the client has seen
--       wait: 1 to join the queue
--       then for each hold id: hold id, owner, lease (ms; 0: never),
--       reentrant (0, 1), queue member, score (0: none yet)
-- Answers  server µs; K's TTL in ms (-1: none, -2: free, and more to skip, 0: free);
--       then for each hold id three numbers:
--         1 held: fence, remaining ms (-1: never)
--         0 busy: 0, 0
--         2 queued, 4 queued behind a foreign lock: score, rank
--         3 dead (released, cancelled, or its lease ran out): 0, 0
--
-- Without any hold id it only hands a free lock to the next waiter.
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local count = #KEYS - 3

-- Every number is bounded before the first write: one that failed after it
-- would leave K without a TTL.
local floor = tonumber(ARGV[1])
if not (floor and floor >= 0 and floor < 9007199254740991 and floor % 1 == 0) then
  return redis.error_reply('HOLDFAST fence floor out of bounds')
end
for i = 1, count do
  local lease, score = tonumber(ARGV[6 * i - 1]), tonumber(ARGV[6 * i + 2])
  if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
    return redis.error_reply('HOLDFAST lease out of bounds')
  end
  if not (score and score >= 0 and score < 9007199254740991) then
    return redis.error_reply('HOLDFAST score out of bounds')
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
local seen = redis.call('MGET', unpack(KEYS, 2)) -- fence, (the queue is no string), dead ids
local stored = seen[1]

--@include _fence.lua

-- Free, and nobody queued. First write HSET: without memory it fails clean.
if count == 1 and not seen[3] and redis.call('EXISTS', K, Q) == 0 then
  local fence, lease = math.max(last + 1, floor + 1, now), tonumber(ARGV[5])
  if lease > 0 then
    redis.call('HSET', K, 'hf1', ARGV[4], 'f', fence, 'h' .. ARGV[3], now_ms + lease)
    redis.call('PEXPIREAT', K, now_ms + lease)
  else
    redis.call('HSET', K, 'hf1', ARGV[4], 'f', fence, 'h' .. ARGV[3], 0)
    lease = -1
  end
  remember(fence)
  return { now, lease, 1, fence, lease }
end

--@include _live.lua
--@include _grant.lua

local top = redis.call('ZRANGE', Q, -1, -1, 'WITHSCORES')
top = tonumber(top[2]) or 0
local holder = redis.pcall('HMGET', K, 'hf1', 'f')
local foreign = false
if holder.err then
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
  foreign, holder = true, {}
elseif not holder[1] then
  foreign = redis.call('EXISTS', K) == 1
end
local free = not holder[1] and not foreign

-- A floor above the last fence means that the server lost the fence.
if floor > last then
  last, mark = floor, nil
  remember(floor)
end

local reply, asking, ghost = { now, 0 }, {}, mark
for i = 1, count do
  local at = 6 * i - 3
  local id, owner, lease = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local nests, member, score = ARGV[at + 3] == '1', ARGV[at + 4], tonumber(ARGV[at + 5])
  local mine = holder[1] and tonumber(redis.call('HGET', K, 'h' .. id) or nil)
  local state, x, y = 0, 0, 0
  if seen[2 + i] or (mine and not live(mine)) then
    state = 3
  elseif mine then
    state, x, y = 1, tonumber(holder[2]), remaining(mine)
  elseif holder[1] == owner and nests then
    local ends = lease > 0 and now_ms + lease or 0
    redis.call('HSET', K, 'h' .. id, ends)
    local ttl = redis.call('PTTL', K)
    if ends == 0 then
      redis.call('PERSIST', K)
    elseif ttl >= 0 and now_ms + ttl < ends then
      redis.call('PEXPIREAT', K, ends)
    end
    state, x, y = 1, tonumber(holder[2]), remaining(ends)
  elseif ARGV[2] == '1' then
    local place = tonumber(redis.call('ZSCORE', Q, member) or nil)
    if not place then
      place = score > 0 and score or math.max(top + 1, now)
      redis.call('ZADD', Q, place, member)
      top = math.max(top, place)
    end
    state, x, y = foreign and 4 or 2, place, 0
    asking[id] = 3 * i
    -- Whoever asks is no ghost.
    if parse(member)[2] == ghost then ghost = nil end
  end
  if member ~= '' and (state == 1 or state == 3) then redis.call('ZREM', Q, member) end
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = state, x, y
end

local more = false
if free then
  local granted
  granted, more = grant(asking, ghost)
  if granted and asking[granted.id] then
    local at = asking[granted.id]
    reply[at], reply[at + 1], reply[at + 2] = 1, granted.fence, remaining(granted.ends)
  elseif not granted and not more and count == 1 and reply[3] == 0 then
    -- Nobody alive was queued: a try gets it.
    local lease = tonumber(ARGV[5])
    local fence, ends = math.max(last + 1, now), lease > 0 and now_ms + lease or 0
    redis.call('HSET', K, 'hf1', ARGV[4], 'f', fence, 'h' .. ARGV[3], ends)
    if ends > 0 then redis.call('PEXPIREAT', K, ends) end
    remember(fence)
    reply[3], reply[4], reply[5] = 1, fence, remaining(ends)
  end
end

-- The queue outlives its waiters' re-checks, not its waiters.
if redis.call('PEXPIRE', Q, 30000) == 1 then
  for i = 1, count do
    if reply[3 * i] == 2 or reply[3 * i] == 4 then
      reply[3 * i + 2] = redis.call('ZRANK', Q, ARGV[6 * i + 1]) or 0
    end
  end
end
local ttl = redis.call('PTTL', K)
reply[2] = (ttl ~= -2 or more) and ttl or 0
return reply
