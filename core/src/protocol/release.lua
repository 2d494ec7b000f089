-- release: end one hold, and hand the lock on.
--
-- KEYS  K, F, Q, S, R; and the dead-id key of the hold id if bury is 1
-- ARGV  hold id, fence (16 digits) or empty; and if there is more to do than to end the hold:
--       bury (0, 1): some copy of its acquire may still be under way; refuse it
--       member: take this queue member out too (a cancelled wait), or empty
--       for a call that is made once: ms (10000 or more), bytes (16 MiB at most), its end: d a
--         result, e an error to be kept, u unknown (the bytes have the reason), n it was not made;
--         and its terms, as for `begin`
--       and at the end the life of a plain F (ms), if that is not a day
-- Answers  0 not held; 1 released; 2 released, and more to hand on; 5 released, but the result
--       was refused, or the server's error, if it has a record of its own; 6 the result is kept,
--       though the hold was over; 7 the record is another caller's
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- Short ways: the common cases, written out for speed, without functions, because making functions
-- costs more than the commands. Taken: the queue is empty, and a plain HDEL is enough. One: it is
-- the only hold, so that only the head of the queue matters, if that is alive and exclusive; and
-- unless K has a 2, F has no more than the fence. Many: F shows that the queue is empty, so that no
-- waiter is next; or all holds are shared and live, so that their number decides whether the head,
-- and then the next waiter, fits. Numbers stay digits, which compare as texts. A `break` goes the
-- general way, with nothing changed.
repeat
  if ARGV[4] then break end
  local call, pcall, sub = redis.call, redis.pcall, string.sub
  local id, fence = ARGV[1], ARGV[2]
  local v = pcall('HGET', K, 'hf1')
  if not v then
    if fence ~= '' and (call('HDEL', K, 'h' .. id .. fence) == 1 or call('HDEL', K, 's' .. id .. fence) == 1) then
      return 1
    end
    break
  end
  if type(v) == 'table' then break end
  local mine, last, dead, pool = sub(v, 1, 49), fence, '0000000000000', nil
  if mine == id .. '2' .. fence then
    local old = pcall('GET', F)
    if not old or #old ~= 61 then break end
    last, dead = sub(old, 1, 16), sub(old, 49)
  elseif sub(v, 33, 33) == 'p' then
    -- The queue is empty, and all holds are shared. An ended hold that is still in S keeps no
    -- waiter out: the request of a waiter would remove it, and let the waiter in.
    local field = call('HGET', K, 'h' .. id)
    if not field or sub(field, 2, 17) ~= fence or call('ZREM', S, id) ~= 1 then break end
    pcall('HDEL', K, 'h' .. id)
    if call('EXISTS', S) == 0 then pcall('DEL', K) end
    return 1
  elseif mine ~= id .. '1' .. fence then
    local old = sub(v, 33, 33) == 'n' and pcall('GET', F)
    if not old or #old ~= 16 and (#old ~= 61 or sub(v, 50, 50) ~= 's') then break end
    local field = call('HGET', K, 'h' .. id)
    if not field or sub(field, 2, 17) ~= fence then break end
    if #old == 16 then
      -- The hold that ends last, together with K, is live, because K exists.
      local two = call('ZRANGE', S, '-2', '-1')
      if two[#two] ~= id then break end
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
    last, dead, pool = sub(old, 1, 16), sub(old, 49), sub(old, 17, 48) == sub(field, 18, 49) and 'marked' or 'is'
  end

  local time = call('TIME')
  local us = time[2]
  local stamp = time[1] .. (#us == 6 and us or sub('00000' .. us, -6))
  if #stamp ~= 16 or last >= stamp or fence >= stamp then break end
  if dead ~= '0000000000000' and dead <= sub(stamp, 1, 13) then dead = '0000000000000' end
  local first = pool and pcall('ZRANGE', Q, '0', '1', 'WITHSCORES') or pcall('ZPOPMIN', Q)
  local m, score = first[1], first[2]
  if pool and (not m or m == '~') then break end
  if first.err then return first end
  if not m or m == '~' then
    -- The queue is empty: F need only keep dead ids.
    local flags = dead ~= '0000000000000' and '--------------------------------' .. dead or ''
    call('DEL', K)
    pcall('SET', F, last .. flags, 'PX', flags == '' and ARGV[3] or '86400000')
    return 1
  end
--@include _hears.lua
  local timeout, lease = string.match(m, pool and '^[ps](%d+)[xs](%d%d%d%d%d%d%d%d%d%d%d%d).'
    or '^[ps](%d+)x(%d%d%d%d%d%d%d%d%d%d%d%d).', 65)
  local short = lease and lease < '000000003000' and lease ~= '000000000000'
  -- A member that parse() drops, or that is not exclusive, goes the general way.
  if not timeout or #timeout ~= 10 or lease > '315360000000' or (short and lease < '000000000010')
    or (timeout ~= '0000000000' and score + timeout * 1000 <= stamp + 0)
    or not heard then
    if not pool then pcall('ZADD', Q, score, m) end
    break
  end
  -- A pushed grant lasts only until its claim, 3 s, as in _grant.lua. The TTL is set first:
  -- whatever is refused after it, K ends.
  local next, done = sub(m, 1, 32), nil
  if pool then
    local soonest, two, count = call('ZRANGE', S, '0', '0', 'WITHSCORES')[2], call('ZRANGE', S, '-2', '-1', 'WITHSCORES'),
      call('ZCARD', S)
    local permits, second = sub(m, 76, 76) == 's' and tonumber(sub(m, 89, 98)), sub(first[3] or '', 76, 76)
    local fits = permits and (permits == 0 or count <= permits)
    if not soonest or (soonest ~= 'inf' and soonest <= sub(stamp, 1, 13)) or (not fits and count == 1) then break end
    if fits and (second == 's' or second == 'w') then
      local most = tonumber(sub(first[3], 89, 98)) or 0
      if most == 0 or count < most then break end
    end
    local latest = two[#two]
    local till = two[#two - 1] ~= id and latest or two[4] and two[2] or '0'
    if fits then
      local ends = sub(stamp, 1, 13) + (short and lease or '3000') .. ''
      if pcall('ZADD', S, 'NX', ends, next) ~= 1 then break end
      if till ~= 'inf' and ends > till then till = ends end
    end
    done = pcall('ZREM', S, id)
    if done ~= 1 then
      if fits then pcall('ZREM', S, next) end
      break
    end
    pcall('HDEL', K, 'h' .. id)
    if fits then done = pcall('HSET', K, 'h' .. next, 's' .. stamp .. client .. sub(m, 99)) end
    if done == 1 and till ~= latest then
      -- Done last: if that end has passed, the server deletes the keys at once.
      done = pcall('PEXPIREAT', S, till)
      if done == 1 then done = pcall('PEXPIREAT', K, till) end
    end
    if not fits then
      if pool == 'marked' then pcall('SET', F, last .. '--------------------------------' .. dead, 'KEEPTTL') end
      if last < time[1] then
        pcall('PEXPIRE', Q, '30000')
        pcall('PEXPIRE', F, '86400000')
      end
      return 1
    end
    if done == 1 then done = pcall('ZREM', Q, m) end
  else
    done = pcall('PEXPIRE', K, short and lease + 0 or '3000')
    if done == 1 then
      local form = dead == '0000000000000' and '1' or '2'
      done = pcall('HSET', K, 'hf1', next .. form .. stamp .. sub(m, 76))
    end
    if done ~= 0 then
      pcall('ZADD', Q, score, m)
      return done
    end
  end
  if not pool or done == 1 then
    local flags = stamp .. client .. dead
    if (pool and last or fence) >= time[1] then
      done = pcall('SET', F, flags, 'KEEPTTL')
    else
      -- Keys in use must live on; once a second is enough.
      pcall('PEXPIRE', Q, '30000')
      done = pcall('SET', F, flags, 'PX', '86400000')
    end
  end
  if not done.err then
    done = pcall(sharded and 'SPUBLISH' or 'PUBLISH', channel, 'g' .. next .. stamp .. stamp)
    if type(done) == 'number' then return 1 end
  end
  -- Undo the grant: the waiter is the first again, and its re-check will ask.
  if pool then
    pcall('ZREM', S, next)
    pcall('HDEL', K, 'h' .. next)
  end
  if not pool or call('EXISTS', S) == 0 then pcall('DEL', K) end
  pcall('SET', F, stamp .. '--------------------------------' .. dead, 'PX', '86400000')
  pcall('ZADD', Q, score, m, 'inf', '~')
  pcall('PEXPIRE', Q, '30000')
  return 1
until true

local life = #ARGV % 2 == 1 and ARGV[#ARGV] or nil
--@include _state.lua
--@include _grant.lua
local id, fence, doubtful, member = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4] or ''
if #ARGV < 4 then doubtful, member = false, '' end
local err = read()
if err then return err end
local at, ends, mine, mode, owner, client, weight = find_hold(id, fence)

-- A removal goes first, even of nothing: after it a full server allows the rest.
if member ~= '' or doubtful or not ends then err = refused('ZREM', Q, member) end
if err then return err end
if doubtful then
  err = bury(KEYS[6])
  if err then return err end
end
if ends then
  if client == mark then mark = NOBODY end
  err = drop(at, ends, mode, weight)
  if err then return err end
end

-- Record the end of its call. The caller that began it can report it without a hold, until it is
-- settled.
local kept, others = nil, false -- nil: nothing is to be kept
if #ARGV > 7 then
  local how, ttl, bytes, terms = ARGV[7], tonumber(ARGV[5]), ARGV[6], ARGV[8]
--@include _once.lua
  local own = written_by(id, fence)
  local result = how == 'd' or how == 'e'
  if result and own and (kind == 'd' or kind == 'e') then
    kept = true -- a copy
  elseif result then
    -- Without a record of its own, its hold shows that no other caller has begun.
    local may = own or ends
      and mode ~= 's' and (kind ~= 'b' and (kind ~= 'd' and kind ~= 'e' or sub(terms, 1, 1) ~= 'm'))
    if not may then
      others = record and true or false
      if ends and not record then kept = false end -- a shared one
    elseif not ttl or ttl < 10000 or ttl > 315360000000 or ttl % 1 ~= 0 or #bytes > 16777216 then
      kept = false
    elseif own then
      err = rewrite(id, how, nil, '', bytes, ttl)
      kept = not err
    else
      kept = not write(id, how, mine, terms, owner, '', bytes, ttl)
    end
  elseif own and kind == 'b' then
    if how == 'u' then
      err = refused('HSET', R, 'n', sub(bytes, 1, 1024))
      has_outcome() -- its time runs
    else
      err = rewrite(id, 'r', nil, '', '', 86400000)
    end
    kept = not err
  end
  if kept and how ~= 'n' then tell_all() end
end

local _, more = grant({})
settle()
if demoted then return demoted end
if others then return 7 end
-- After an error the client sends it again: no other caller makes a call that has a record.
if kept == false then return err or 5 end
if not ends then return kept and 6 or 0 end
return more and 2 or 1
