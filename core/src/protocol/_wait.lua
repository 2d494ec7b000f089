-- The rest of acquire and recheck: answer each of `asks` as recheck says, and
-- hand K, if it is free, to the next waiter.

-- Check every number before the first write: a failure after it would leave K without a
-- TTL.
if not (floor and floor >= 0 and floor < 9007199254740991 and floor % 1 == 0) then
  return redis.error_reply('HOLDFAST fence floor out of bounds')
end
for _, ask in ipairs(asks) do
  local lease, score = ask.lease, ask.score
  if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
    return redis.error_reply('HOLDFAST lease out of bounds')
  end
  if not (score and score >= 0 and score < 9007199254740991) then
    return redis.error_reply('HOLDFAST score out of bounds')
  end
end
--@include _fence.lua
if spent then
  return redis.error_reply('HOLDFAST the last fence is out of bounds')
end
--@include _live.lua
--@include _grant.lua

local top = call('ZRANGE', Q, -1, -1, 'WITHSCORES')
top = tonumber(top[2]) or 0
local holder = redis.pcall('HMGET', K, 'hf1', 'f')
local foreign = false
if holder.err then
  if not string.find(holder.err, 'WRONGTYPE', 1, true) then return holder end
  foreign, holder = true, {}
elseif not holder[1] then
  foreign = call('EXISTS', K) == 1
end
local free = not holder[1] and not foreign

-- A floor above the last fence: the server has lost the fence.
if floor > last then
  local done = remember(floor)
  if done.err then return done end
  last, mark = floor, nil
end

local reply, asking, ghost = { now, 0 }, {}, mark
for i, ask in ipairs(asks) do
  local mine = holder[1] and tonumber(call('HGET', K, 'h' .. ask.id) or nil)
  local state, x, y = 0, 0, 0
  if ask.dead or (mine and not live(mine)) then
    state = 3
  elseif mine then
    state, x, y = 1, tonumber(holder[2]), remaining(mine)
  elseif holder[1] == ask.owner and ask.nests then
    local ends = ask.lease > 0 and now_ms + ask.lease or 0
    call('HSET', K, 'h' .. ask.id, ends)
    local ttl, done = redis.pcall('PTTL', K), 0
    if type(ttl) == 'table' then
      done = ttl
    elseif ends == 0 then
      done = redis.pcall('PERSIST', K)
    elseif ttl >= 0 and now_ms + ttl < ends then
      done = redis.pcall('PEXPIREAT', K, ends)
    end
    if type(done) == 'table' then
      call('HDEL', K, 'h' .. ask.id)
      return done
    end
    state, x, y = 1, tonumber(holder[2]), remaining(ends)
  elseif wait then
    local place = tonumber(call('ZSCORE', Q, ask.member) or nil)
    if not place then
      place = ask.score > 0 and ask.score or math.max(top + 1, now)
      call('ZADD', Q, place, ask.member)
      top = math.max(top, place)
    end
    state, x = foreign and 4 or 2, place
    asking[ask.id] = 3 * i
    -- A client that asks is no ghost.
    if ghost then
      local _, channel = parse(ask.member)
      if channel == ghost then ghost = nil end
    end
  end
  if ask.member ~= '' and (state == 1 or state == 3) then redis.pcall('ZREM', Q, ask.member) end
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = state, x, y
end

local more = false
if free then
  local granted, stuck
  granted, more, stuck = grant(asking, ghost)
  if type(stuck) == 'table' then
    -- The lock could not be granted: callers that have just joined leave the queue, and get
    -- the error.
    for _, ask in ipairs(asks) do
      if ask.score == 0 and ask.member ~= '' then redis.pcall('ZREM', Q, ask.member) end
    end
    return stuck
  end
  if granted and asking[granted.id] then
    local at = asking[granted.id]
    reply[at], reply[at + 1], reply[at + 2] = 1, granted.fence, remaining(granted.ends)
  elseif not granted and not more and not stuck and not wait and #asks == 1 and reply[3] == 0 then
    -- No live waiter was queued: a try gets the lock.
    local fence, lease = math.max(last + 1, now), asks[1].lease
    local refused = take(asks[1].owner, asks[1].id, fence, lease)
    if refused then return refused end
    reply[3], reply[4], reply[5] = 1, fence, lease > 0 and lease or -1
  end
end

-- The queue lives longer than the pause between re-checks, but not longer than its waiters.
if redis.pcall('PEXPIRE', Q, 30000) == 1 then
  for i, ask in ipairs(asks) do
    if reply[3 * i] == 2 or reply[3 * i] == 4 then
      local rank = redis.pcall('ZRANK', Q, ask.member)
      reply[3 * i + 2] = type(rank) == 'number' and rank or 0
    end
  end
end
-- Without the permission for PTTL the client asks again soon. A script that has written
-- answers no error.
local ttl = redis.pcall('PTTL', K)
if type(ttl) == 'table' then ttl = 1000 end
reply[2] = (ttl ~= -2 or more) and ttl or 0
return reply
