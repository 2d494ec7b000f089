-- share: acquire K shared, if it is free or has shared holds only, without a queue, an unclaimed
-- grant or a dead id. As for `take`, F shows these: each makes it longer than a fence.
--
-- KEYS  K, F, S
-- ARGV  hold id; owner; lease (ms, not 0); permits (0: no limit); floor: the highest fence of K
--       that the client has seen (16 digits); and the life of a plain F (ms), if that is not a day
-- Answers  the fence, which is the server's time in µs too, and + if there are other holds; or an
--       integer, and nothing is done: -1 K has an exclusive hold; 0 send `acquire`; -2 the same,
--       and F may have a limit: send `acquire` for later requests, too
local call, pcall, sub, K, F, S = redis.call, redis.pcall, string.sub, KEYS[1], KEYS[2], KEYS[3]
local v = pcall('HGET', K, 'hf1')
local form = v and (v.err or sub(v, 33, 33))
if form and form ~= 'p' and (form ~= 'n' or sub(v, 50, 50) ~= 's') then
  return (form == '1' or form == '2') and -1 or 0
end
local id, owner, lease = ARGV[1], ARGV[2], ARGV[3]
local digits = #lease
if #id ~= 32 or #owner < 1 or #owner > 4096 or digits < 2 or lease < '1'
  or digits > 11 and (digits > 12 or lease > '315360000000') then
  return 0
end
local time = call('TIME')
local stamp = time[1] .. time[2]
if #stamp ~= 16 then stamp = time[1] .. sub('00000' .. time[2], -6) end
if stamp <= ARGV[5] then return 0 end
local size = v and 2 or call('HLEN', K)
local name, holder, first, done, old

if size == 0 then
  name = 's' .. id .. stamp
  call('HSET', K, name, owner)
  done = pcall('PEXPIRE', K, lease)
  old = done == 1 and pcall('SET', F, stamp, 'GET', 'PX', ARGV[6] or '86400000')
  if done == 1 and (not old or (#old == 16 and old < stamp)) then return stamp end
  if pcall('DEL', K) ~= 1 then pcall('HDEL', K, name) end
else
  if not v then
    local all = size == 1 and call('HGETALL', K) or { '' }
    name, holder = all[1], all[2]
    if #name ~= 49 or sub(name, 1, 1) ~= 's' or sub(name, 2, 33) == id then
      return #name == 49 and sub(name, 1, 1) == 'h' and -1 or 0
    end
  end
  if form ~= 'p' then
    local last = pcall('GET', F)
    if type(last) == 'table' then return -2 end
    if not last or #last ~= 16 or last >= stamp then return 0 end
  end
  local count, permits = name and 1 or call('ZCARD', S), ARGV[4]
  if count == 0 or (permits ~= '0' and count >= (tonumber(permits) or 0)) then return 0 end

  -- The header has a time until which K and S live at least: later than needed by an eighth of the
  -- lease, but at most a minute, so that not every hold must set it. F's life is set with it.
  local ends = sub(stamp, 1, 13) + lease .. ''
  local till, value = form == 'p' and sub(v, 37, 49) or '', 's' .. stamp .. '--------------------------------' .. owner
  if name then
    -- Change it to the form many, in which a plain HDEL finds nothing.
    local ttl = call('PTTL', K)
    time = call('TIME') -- end_of_key() says why
    first = ttl < 0 and 'inf' or time[1] * 1000 + math.floor(time[2] / 1000) + ttl .. ''
    if call('EXISTS', S) == 1 then call('DEL', S) end -- what a lost K has left behind
    -- A member of more than 64 bytes makes S a skip list, which is not searched entry by entry.
    done = pcall('ZADD', S, first, sub(name, 2, 33), ends, id, 'inf', name .. name)
    if done ~= 3 then return done end
    done = pcall('ZREM', S, name .. name)
    if done ~= 1 then
      pcall('DEL', S)
      return done
    end
  elseif pcall('ZADD', S, 'NX', ends, id) ~= 1 then
    return 0
  end
  local later, head = name or ends > till and call('ZREVRANK', S, id) == 0, nil
  if later and first ~= 'inf' then
    till = (first and first > ends and first or ends) + math.min(math.floor(lease / 8), 60000) .. ''
    head = '00000000000000000000000000000000p000' .. till .. 's000000000000'
  else
    later, head = false, '00000000000000000000000000000000n9999999999999999s000000000000'
  end
  if name then
    done = pcall('HDEL', K, '') -- is it allowed? The plain field must not stay
    if done == 0 then
      done = pcall('HSET', K, 'hf1', head, 'h' .. id, value,
        'h' .. sub(name, 2, 33), 's' .. sub(name, 34) .. '--------------------------------' .. holder)
      if done == 3 then done = 1 end
    end
  elseif later then
    done = pcall('HSET', K, 'hf1', head, 'h' .. id, value)
  else
    done = pcall('HSET', K, 'h' .. id, value)
  end
  if done == 1 and later then
    done = pcall('PEXPIREAT', S, till)
    if done == 1 then done = pcall('PEXPIREAT', K, till) end
  end
  if done == 1 and (later or ARGV[6]) then
    old = pcall('SET', F, stamp, 'GET', 'PX', ARGV[6] or '86400000')
  elseif done == 1 then
    old = pcall('SET', F, stamp, 'GET', 'KEEPTTL')
    if not old then pcall('PEXPIRE', F, '86400000') end
  end
  if done == 1 and (not old or (#old == 16 and old < stamp)) then
    if name then pcall('HDEL', K, name) end
    return stamp .. '+'
  end
  if name then
    pcall('DEL', S)
    pcall('HDEL', K, 'hf1', 'h' .. id, 'h' .. sub(name, 2, 33))
    if first ~= 'inf' then pcall('PEXPIREAT', K, first) end
  else
    pcall('ZREM', S, id)
    pcall('HDEL', K, 'h' .. id)
    if later then pcall('HSET', K, 'hf1', v) end
  end
end

-- F is not plain, or has a limit, or is ahead of the clock, or the user lacks a permission: restore
-- all.
if done ~= 1 then return done end
if old.err then return string.find(old.err, 'WRONGTYPE', 1, true) and -2 or old end
local ends = tonumber(sub(old, 1, 16)) or 0
pcall('SET', F, old, 'PXAT', string.format('%.0f', math.floor(math.max(ends, tonumber(stamp)) / 1000)
  + (#old == 16 and ARGV[6] or 86400000)))
return 0
