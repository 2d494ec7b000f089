-- A member of the queue: the hold id (32 bytes), then as netstrings the
-- channel, the owner, the lease and the timeout in ms, and reentrant (0 or 1).
local function parse(member)
  local part, at = { string.sub(member, 1, 32) }, 33
  for i = 2, 6 do
    local digits = string.match(member, '^(%d%d?%d?%d?%d?):', at)
    if not digits then return {} end
    local from = at + #digits + 1
    at = from + tonumber(digits)
    if string.sub(member, at, at) ~= ',' then return {} end
    part[i] = string.sub(member, from, at - 1)
    at = at + 1
  end
  return part
end

local function sharded(channel)
  return string.sub(channel, 1, 4) == 'hf:{'
end

-- Asked before anything is published: what PUBLISH counts says nothing about
-- who may still receive it. Without the permission to ask, nobody is there.
local function listening(channel)
  local count = redis.pcall('PUBSUB', sharded(channel) and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return not count.err and (tonumber(count[2]) or 0) > 0
end

-- Hand the lock, which must be free, to the first live waiter.
--
-- asking  hold id -> true for those whose call this is: they are alive, and
--         are answered instead of messaged
-- ghost   a channel whose members are taken out: its client let a pushed
--         grant run out. Live ones come back with their first score.
--
-- Returns the granted waiter, or nil and whether there may be more to skip.
-- Reads come before the first write of each step, and the first write is a
-- removal, which a server without memory still allows.
local function grant(asking, ghost)
  if ghost then
    for _, member in ipairs(redis.pcall('ZRANGE', Q, 0, 999)) do
      if parse(member)[2] == ghost then redis.call('ZREM', Q, member) end
    end
  end
  for _ = 1, 100 do
    local head = redis.pcall('ZRANGE', Q, 0, 0, 'WITHSCORES')
    if head.err or #head == 0 then return nil, false end
    local member, score = head[1], tonumber(head[2])
    local part = parse(member)
    local id, channel, owner = part[1], part[2], part[3]
    local lease, timeout = tonumber(part[4]), tonumber(part[5])
    local asks = id and asking[id]
    local alive = timeout and lease
      and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))
      and (asks or ((timeout == 0 or score + timeout * 1000 > now) and listening(channel)))
    redis.call('ZREM', Q, member)
    if alive then
      -- A pushed grant lasts only until its claim, so that a waiter whose
      -- machine died with its connection open does not delay the rest by a
      -- whole lease.
      local given = lease
      if not asks and (lease == 0 or lease > 3000) then given = 3000 end
      local fence = math.max(last + 1, now)
      local ends = given > 0 and now_ms + given or 0
      redis.call('HSET', K, 'hf1', owner, 'f', fence, 'h' .. id, ends)
      if ends > 0 then redis.call('PEXPIREAT', K, ends) end
      last = fence
      mark = not asks and channel or nil
      remember(fence, mark)
      if asks then return { id = id, fence = fence, ends = ends } end
      local sent = redis.pcall(sharded(channel) and 'SPUBLISH' or 'PUBLISH', channel,
        string.format('g %s %.0f %.0f %.0f', id, fence, now, given))
      if type(sent) ~= 'table' then return { id = id, fence = fence, ends = ends } end
      -- Not allowed to publish: undo. The waiters will come and ask.
      redis.call('DEL', K)
      redis.call('ZADD', Q, score, member)
      mark = nil
      remember(fence)
      return nil, false
    end
  end
  return nil, true
end
