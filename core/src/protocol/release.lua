-- release: end one hold, and hand the lock on.
--
-- KEYS  K, F, Q, S, R; and the dead-id key of the hold id if bury is 1
-- ARGV  hold id, fence (16 digits) or empty; and if there is more to do than to end the hold:
--       bury (0, 1): some copy of its acquire may still be under way; refuse it
--       member: take this queue member out too (a cancelled wait), or empty
--       to leave a result: its ms (10000 or more), its bytes (1 MiB at most)
-- Answers  0 not held; 1 released; 2 released, and more to hand on; 5 released, but the result
--       was refused
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- The common cases, written out for speed, without functions: to make them costs more than the
-- commands. Taken: nobody is queued, and a plain HDEL is all. One: it is the only hold, so
-- that only the head of the queue matters, if that is alive and exclusive. Many: F says that
-- nobody is queued, so that nobody is next. Numbers stay digits, which compare as texts. A
-- `break` goes the general way, with all as before.
repeat
  if ARGV[3] then break end
  local call, pcall, sub = redis.call, redis.pcall, string.sub
  local id, fence = ARGV[1], ARGV[2]
  local v = pcall('HGET', K, 'hf1')
  if not v then
    if fence ~= '' and call('HDEL', K, 'h' .. id .. fence) == 1 then return 1 end
    break
  end
  if type(v) == 'table' then break end
  local old = call('GET', F)
  if not old then break end

  if sub(v, 1, 49) ~= id .. '1' .. fence then
    if sub(v, 33, 33) ~= 'n' or #old ~= 16 then break end
    -- The last to end, with K, is live: K is.
    local two = call('ZRANGE', S, '-2', '-1')
    local field = call('HGET', K, 'h' .. id)
    if two[#two] ~= id or not field or sub(field, 2, 17) ~= fence then break end
    if not two[2] then
      call('DEL', K, S)
      return 1
    end
    call('ZREM', S, id)
    pcall('HDEL', K, 'h' .. id)
    if sub(field, 1, 1) ~= 's' then
      local x = sub(v, 17, 32) - 1
      pcall('HSET', K, 'hf1', x == 0 and '00000000000000000000000000000000n9999999999999999s000000000000'
        or sub(v, 1, 16) .. sub('000000000000000' .. x, -16) .. sub(v, 33))
    end
    local ends = call('ZSCORE', S, two[1])
    if ends ~= 'inf' then
      pcall('PEXPIREAT', K, ends)
      pcall('PEXPIREAT', S, ends)
    end
    return 1
  end

  local time = call('TIME')
  local us = time[2]
  local stamp = time[1] .. (#us == 6 and us or sub('00000' .. us, -6))
  if #old ~= 61 or #stamp ~= 16 or sub(old, 1, 16) >= stamp or fence >= stamp then break end
  local first = pcall('ZPOPMIN', Q)
  local m, score = first[1], first[2]
  if first.err then return first end
  if not m or m == '~' then
    -- Nobody is queued: there is nothing to look after but dead ids.
    local flags = sub(old, 49) > sub(stamp, 1, 13) and '--------------------------------' .. sub(old, 49) or ''
    call('DEL', K)
    pcall('SET', F, sub(old, 1, 16) .. flags, 'PX', '86400000')
    return 1
  end
  local client, timeout, mode, lease = sub(m, 33, 64), sub(m, 66, 75), sub(m, 76, 76), tonumber(sub(m, 77, 88))
  local kind = sub(m, 65, 65)
  local sharded = kind == 's'
  local channel = sharded and 'hf:{' .. (string.match(K, '^[^{]*{([^}]+)}') or K) .. '}:' .. client
    or 'hf:' .. client
  -- What parse() drops, or is not exclusive, goes the general way.
  if #m < 89 or mode ~= 'x' or (kind ~= 'p' and not sharded)
    or not (lease and (lease == 0 or lease >= 10) and lease <= 315360000000 and lease % 1 == 0)
    or (timeout ~= '0000000000' and score + (tonumber(timeout) or -1e99) * 1000 <= stamp + 0)
    or (pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] or 0) < 1 then
    pcall('ZADD', Q, score, m)
    break
  end
  -- A pushed grant lasts only until its claim; 3 s: as in _grant.lua. To print a number of 13
  -- digits costs as much as a command.
  local ends
  if lease == 0 or lease >= 3000 then
    ends = string.format('%d', time[1] + 3) .. sub(stamp, 11, 13)
  else
    ends = sub(stamp, 1, 13) + lease
  end
  -- The TTL goes first: whatever is refused then, K ends.
  local next = sub(m, 1, 32)
  local done = pcall('PEXPIREAT', K, ends)
  if done == 1 then done = pcall('HSET', K, 'hf1', next .. '1' .. stamp .. sub(m, 76)) end
  if done ~= 0 then
    pcall('ZADD', Q, score, m)
    return done
  end
  local flags = stamp .. client .. sub(old, 49)
  if time[1] == sub(fence, 1, 10) then
    done = pcall('SET', F, flags, 'KEEPTTL')
  else
    -- What is in use lives on; once a second is enough.
    pcall('PEXPIRE', Q, '30000')
    done = pcall('SET', F, flags, 'PX', '86400000')
  end
  if not done.err then
    done = pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, 'g' .. next .. stamp .. stamp)
    if type(done) == 'number' then return 1 end
  end
  -- Undone: it is the first again, and will come and ask.
  pcall('DEL', K)
  pcall('SET', F, stamp .. '--------------------------------' .. sub(old, 49), 'PX', '86400000')
  pcall('ZADD', Q, score, m, 'inf', '~')
  pcall('PEXPIRE', Q, '30000')
  return 1
until true

--@include _state.lua
--@include _grant.lua
local id, fence, bury, member, ttl, bytes = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4] or '',
  tonumber(ARGV[5]), ARGV[6]
local err = read()
if err then return err end
local ends, mine, mode, _, client = hold(id)
if ends and fence ~= '' and fence ~= mine then ends = nil end

-- A removal first, even of nothing: after it a full server allows the rest.
if member ~= '' or bury or not ends then err = refused('ZREM', Q, member) end
if err then return err end
if bury then
  err = refused('SET', KEYS[6], '1', 'PX', '600000')
  if err then return err end
  buried = fmt('%013.0f', now_ms + 600000)
  err = remember(last, mark, flagged)
  if err then return err end
end

local kept = true
if ends then
  if client == mark then mark = NOBODY end
  err = drop(id, ends, mode)
  if err then return err end
  if bytes then
    kept = mode ~= 's' and ttl and ttl >= 10000 and ttl <= 315360000000 and #bytes <= 1048576
      and not refused('SET', R, mine .. bytes, 'PX', ARGV[5])
    result = kept or nil
    if kept and queued ~= false then
      for _, m in ipairs(pcall('ZRANGE', Q, 0, 999)) do
        local a = sub(m, 76, 76) == 'o' and parse(m)
        if a then tell(a) end
      end
    end
  end
end
local _, more = grant({})
settle()
if demoted then return demoted end
if not ends then return 0 end
return not kept and 5 or more and 2 or 1
