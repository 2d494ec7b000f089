--@include _member.lua
local function sharded(channel)
  return string.sub(channel, 1, 4) == 'hf:{'
end

-- Does anybody listen? Asked before PUBLISH, whose count does not say who can still receive
-- the message. nil: the user lacks the permission.
local function listening(channel)
  local count = redis.pcall('PUBSUB', sharded(channel) and 'SHARDNUMSUB' or 'NUMSUB', channel)
  if count.err then return nil end
  return (tonumber(count[2]) or 0) > 0
end

-- Write a free lock's first hold: all or nothing, whatever permission the user lacks.
-- Answers the server's error, if there was one.
local function take(owner, id, fence, lease, channel)
  local done = redis.pcall('HSET', K, 'hf1', owner, 'f', digits(fence), 'h' .. id,
    lease > 0 and string.format('%.0f', now_ms + lease) or '0')
  if type(done) == 'table' then return done end
  if lease > 0 then done = redis.pcall('PEXPIREAT', K, now_ms + lease) end
  if type(done) ~= 'table' then done = remember(fence, channel) end
  if done.err then
    redis.call('DEL', K)
    return done
  end
  last, mark = fence, channel
end

-- Hand the lock, which must be free, to the first live waiter.
--
-- asking  hold id -> true for the callers' own hold ids: they are alive, and get an
--         answer instead of a message
-- ghost   a channel whose client let a pushed grant run out. Its members are removed;
--         live ones come back with their first score.
--
-- Returns the granted waiter, or nil and whether there may be more to skip. If the user
-- lacks a permission to serve the first waiter, the queue stays as it is and the lock free:
-- the third result says so, with the server's error if there was one and it is the
-- caller's own turn. The waiters will ask
-- by themselves. The first write of each step is a removal, which a server without memory
-- still allows.
local function grant(asking, ghost)
  if ghost then
    for _, member in ipairs(redis.pcall('ZRANGE', Q, 0, 999)) do
      local _, channel = parse(member)
      if channel == ghost then redis.call('ZREM', Q, member) end
    end
  end
  for _ = 1, 100 do
    local head = redis.pcall('ZPOPMIN', Q)
    local member, score = head[1], head[2]
    if head.err then return nil, false, head end
    if not member then return nil, false end
    local id, channel, owner, given, timeout = parse(member)
    local lease, asks = tonumber(given), id and asking[id]
    local alive = timeout ~= nil and (lease == 0 or (lease >= 10 and lease <= 315360000000))
    if alive and not asks then
      alive = timeout == 0 or score + timeout * 1000 > now
      if alive then alive = listening(channel) end
    end
    local stuck = alive == nil and id or (alive and spent)
    if alive and not stuck then
      -- A pushed grant lasts only until its claim. So a waiter whose machine died with its
      -- connection open does not delay the rest by a whole lease.
      if not asks and (lease == 0 or lease > 3000) then lease, given = 3000, '3000' end
      local fence = math.max(last + 1, now)
      stuck = take(owner, id, fence, lease, not asks and channel or nil)
      local granted = { id = id, fence = fence, ends = lease > 0 and now_ms + lease or 0 }
      if asks and not stuck then return granted end
      if not stuck then
        local sent = redis.pcall(sharded(channel) and 'SPUBLISH' or 'PUBLISH', channel,
          'g ' .. id .. ' ' .. digits(fence) .. ' ' .. stamp .. ' ' .. given)
        if type(sent) ~= 'table' then return granted end
        stuck = sent
        redis.call('DEL', K)
        mark = nil
        remember(fence)
      end
    end
    if stuck then
      redis.pcall('ZADD', Q, score, member) -- refused if it was the last of a slot being moved
      redis.pcall('PEXPIRE', Q, '30000') -- it may have been the only one
      return nil, false, asks and type(stuck) == 'table' and stuck or true
    end
  end
  return nil, true
end
