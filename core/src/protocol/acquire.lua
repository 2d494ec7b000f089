-- acquire: take K for one hold id, or wait for it in the queue.
--
-- KEYS  K, last fence, queue, dead-id key of the hold id
-- ARGV  hold id, owner, lease (ms; 0: never), reentrant (0, 1), floor: the
--       highest fence of K that the client has seen; and to join the queue:
--       member, score (0: none yet)
-- Answers  if it was free, the fence alone: it is the server's time in µs too,
--       and the whole lease is left. Else as recheck, for one hold id.
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local lease = tonumber(ARGV[3])
local floor = tonumber(ARGV[5])
if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
  return redis.error_reply('HOLDFAST lease out of bounds')
end

-- The common case, written out for speed: the lock is free, the queue empty, the hold id
-- not dead, and the clock ahead of the last fence, so that the fence is the time. Its
-- digits are the server's own: printing a number costs as much as a command. The first
-- write is the HSET: without memory it fails and leaves nothing.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = (now - now % 1000) / 1000
local stored = call('GET', F)
local keys = call('EXISTS', K, Q, KEYS[4])
if keys == 0 and floor and floor >= 0 and floor % 1 == 0 and floor < now
  and now < 9007199254740991 and (tonumber(stored or 0) or now) < now then
  local fence = time[1] .. string.sub('00000' .. time[2], -6)
  local done
  if lease > 0 then
    call('HSET', K, 'hf1', ARGV[2], 'f', fence, 'h' .. ARGV[1], now_ms + lease)
    done = redis.pcall('PEXPIRE', K, lease)
  else
    call('HSET', K, 'hf1', ARGV[2], 'f', fence, 'h' .. ARGV[1], '0')
  end
  -- All or nothing, whatever permission the user lacks.
  if type(done) ~= 'table' then done = redis.pcall('SET', F, fence, 'PX', '86400000') end
  if not done.err then return now end
  call('DEL', K)
  return done
end

local wait = ARGV[6] ~= nil

-- The other common case: another holds the lock, and this caller joins the queue for the
-- first time, with no fence that the server has forgotten.
if wait and keys < 3 and ARGV[7] == '0' and floor and floor >= 0 and floor % 1 == 0
  and floor <= (tonumber(string.match(stored or '', '^%d+')) or -1) then
  local held = redis.pcall('HMGET', K, 'hf1', 'h' .. ARGV[1])
  local rank, ttl = call('ZCARD', Q), call('PTTL', K)
  -- Only K and perhaps the queue exist: the hold id is not dead.
  if held[1] and held[1] ~= ARGV[2] and not held[2] and keys == (rank > 0 and 2 or 1)
    and call('ZADD', Q, 'NX', time[1] .. string.sub('00000' .. time[2], -6), ARGV[6]) == 1 then
    -- It must be the last in the queue: otherwise the clock has stepped back.
    local behind = redis.pcall('ZREVRANK', Q, ARGV[6])
    local done = rank > 0 or redis.pcall('PEXPIRE', Q, '30000')
    if behind == 0 and type(done) ~= 'table' then return { now, ttl, 2, now, rank } end
    call('ZREM', Q, ARGV[6])
    if type(behind) == 'table' then return behind end
    if type(done) == 'table' then return done end
  end
end

local asks = { {
  id = ARGV[1], owner = ARGV[2], lease = lease, nests = ARGV[4] == '1',
  member = ARGV[6] or '', score = tonumber(ARGV[7] or 0),
  dead = call('EXISTS', KEYS[4]) == 1,
} }
--@include _wait.lua
