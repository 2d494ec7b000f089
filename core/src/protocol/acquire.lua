-- acquire: take K for each of several hold ids of one client, or wait for it in the queue; without
-- an id, only hand the lock on.
--
-- KEYS  K, F, Q, S, R, then the dead-id key of each hold id
-- ARGV  floor: the highest fence of K that the client has seen; then for each hold id:
--       hold id, owner, lease (ms; 0: never)
--       mode: x exclusive, o exclusive or the outcome, s shared and its permits (0: no limit), w
--         shared, its permits, a colon and its weight (2 or more)
--       nests: 0 no; 1 in an exclusive hold of the same owner; 1 and a hold id: also in that
--         hold of the same owner
--       member: empty, it does not wait; score (0: none yet; -µs: none yet, and a head start of
--         that time)
--       and at the end the life of a plain F (ms), if that is not a day
-- Answers  server µs; ms until it should ask again (the first end of a hold; -1: no hold ends;
--       0: free; -2: at once, there is more to hand on); then for each hold id three
--       numbers:
--         0 busy: 0, 0
--         1 held: fence, ms left (-1: never)
--         2 queued, 4 queued behind a foreign lock: score, rank
--         6, 8 as 2, 4, but it had a score and was out of the queue
--         3 dead (released or cancelled): 0, 0
--         5 an outcome: the record { hf1, n, b } for the first such id, then empty; its ms (-1: no
--           end)
--         9 refused: it would wait for the shared hold in which it nests, or is heavier than that
--           hold
--         10 refused: it gives another number than the stored one: the stored number; ms of a
--           gate's passes (0, 0: none is stored, and it gives only a weight)
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- Short ways: the common cases of nested holds, and the first waiter, written out for speed,
-- without functions, because making functions costs more than the commands. A plain F shows that
-- the queue is empty, so that no waiter is passed; that no id is dead; and the last fence. A
-- `break` goes the general way, with nothing changed.
repeat
  local id, owner, lease, how, floor = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[1]
  if #KEYS ~= 6 or not lease or lease < 10 or lease > 315360000000 or lease % 1 ~= 0 or #owner < 1
    or #owner > 4096 or (floor ~= '0' and #floor ~= 16) then
    break
  end
  local call, pcall, sub = redis.call, redis.pcall, string.sub
  local last, v = pcall('GET', F), pcall('HGET', K, 'hf1')
  if not last or #last < 16 or type(v) == 'table' or (floor ~= '0' and floor > last) then break end
  local time = call('TIME')
  local us = time[2]
  local stamp = time[1] .. (#us == 6 and us or sub('00000' .. us, -6))
  if #stamp ~= 16 or last >= stamp then break end
  local shared, nests, form, err = sub(how, 1, 1) == 's', ARGV[6] ~= '0', sub(v or '', 33, 33), nil
  if not shared and #how ~= 1 then break end
  local m, score = ARGV[7], ARGV[8]
  local waits = (not v or #last ~= 16) and how ~= 'o' and #ARGV[6] == 1 and sub(m, 1, 32) == id
    and sub(m, shared and 99 or 89) == owner and tonumber(sub(m, 77, 88)) == lease
    and string.find(sub(m, 65, shared and 98 or 88), shared and '^[ps]%d+s%d+$' or '^[ps]%d+x%d+$')
    and (not shared or tonumber(sub(m, 89, 98)) == tonumber(sub(how, 2)))

  if #last ~= 16 then
    -- A waiter asks again, or one more arrives, and it does not fit. If another waiter fits, its
    -- own re-check finds out.
    local again
    if not waits or #last ~= 61 or sub(last, 49) ~= '0000000000000' or nests and sub(v or '', 63) == owner then break end
    if form == '1' or form == '2' then
      if sub(v, 1, 32) == id or sub(v, 34, 49) > last then break end
      again = call('PTTL', K)
    elseif form == 'n' then
      again = call('ZRANGE', S, '0', '0', 'WITHSCORES')[2]
      if not again or (again ~= 'inf' and again <= sub(stamp, 1, 13)) or sub(v, 1, 16) > last
        or call('HGET', K, 'h' .. id) then
        break
      end
      if shared and sub(v, 50, 50) == 's' then
        local permits = sub(how, 2) + 0
        if permits == 0 or call('ZCARD', S) < permits then break end
      end
      again = again == 'inf' and -1 or again - sub(stamp, 1, 13)
    else
      break
    end
    local added = 0
    if score == '0' then
      local top = call('ZRANGE', Q, '-2', '-2', 'WITHSCORES')[2]
      if top and top >= stamp then break end
      score, added = stamp, pcall('ZADD', Q, 'NX', stamp, m, 'inf', '~')
      if type(added) == 'table' or added == 0 then break end
    else
      score = string.find(score, '^%d+$') and score + 0 < 9007199254740990 and call('ZSCORE', Q, m)
      if not score then break end
    end
    local rank = call('ZRANK', Q, m)
    if added == 0 then
      -- Look at one more member, anywhere: gone waiters must not pile up behind a lock that is held
      -- for long.
      local m = call('ZRANGE', Q, us % (rank + 2), us % (rank + 2))[1]
      if m and m ~= '~' and m ~= ARGV[7] then
--@include _hears.lua
        if not heard then break end
      end
    end
    -- Once a second is enough; but a re-check writes in any case, to show whether this is still the
    -- master.
    local late = last < time[1]
    if added ~= 1 or late then err = pcall('PEXPIRE', Q, '30000') end
    if type(err) == 'table' then break end
    if late then pcall('PEXPIRE', F, '86400000') end
    return { stamp + 0, again, 2, score + 0, rank }
  end
  local ends = sub(stamp, 1, 13) + lease .. ''
  local fence, mode = stamp, shared and 's' or 'x'
  local value = '--------------------------------' .. owner

  if form == 'n' then
    -- It nests in its owner's hold.
    local x = sub(v, 17, 32)
    local first = sub(v, 50, 50) == 'x' and nests and sub(v, 63) == owner
      and call('ZRANGE', S, '0', '0', 'WITHSCORES')[2]
    if not first or (first ~= 'inf' and first <= sub(stamp, 1, 13)) then break end
    fence = sub(v, 1, 16)
    local added = pcall('ZADD', S, 'NX', ends, id)
    if added ~= 1 then break end
    if not shared then
      v = fence .. sub('000000000000000' .. x + 1, -16) .. sub(v, 33)
      err = pcall('HSET', K, 'hf1', v, 'h' .. id, mode .. fence .. value)
    else
      err = pcall('HSET', K, 'h' .. id, mode .. fence .. value)
    end
    if type(err) == 'number' then
      err = call('ZREVRANK', S, id) > 0 or pcall('PEXPIREAT', S, ends)
      if type(err) == 'number' then err = pcall('PEXPIREAT', K, ends) end
    end
    if type(err) == 'table' and err.err then
      pcall('ZREM', S, id)
      pcall('HDEL', K, 'h' .. id)
      if not shared then pcall('HSET', K, 'hf1', fence .. x .. sub(v, 33)) end
      return err
    end
    return { stamp + 0, lease, 1, fence + 0, lease }
  end

  -- If Q exists, F was lost.
  if v or call('EXISTS', S, Q) > 0 then break end
  local size = call('HLEN', K)
  if how == 'o' and size == 0 then
    -- It gets the outcome: there are no holders and no waiters.
    local record = call('HGET', R, 'hf1')
    if not record or not string.find(record, '^[de]', 33)
      or m ~= '' and (sub(m, 1, 32) ~= id or sub(m, 89) ~= owner or tonumber(sub(m, 77, 88)) ~= lease
        or not string.find(sub(m, 65, 88), '^[ps]%d+o%d+$'))
      or score ~= '0' and not (string.find(score, '^%d+$') and #score < 17 and score + 0 < 9007199254740990) then
      break
    end
    err = pcall('ZREM', Q, '') -- is this still the master?
    if err ~= 0 then return err end
    return { stamp + 0, 0, 5, { record, call('HGET', R, 'n') or '', call('HGET', R, 'b') or '' }, call('PTTL', R) }
  end
  if size ~= 1 then break end

  -- Taken: K gets another form, in which a plain HDEL finds nothing.
  local all, ttl = call('HGETALL', K), call('PTTL', K)
  local name, holder = all[1], all[2]
  if #name ~= 49 or sub(name, 1, 1) ~= 'h' or sub(name, 2, 33) == id then break end
  fence = sub(name, 34)
  if holder == owner then
    if not nests then break end
    time = call('TIME') -- end_of_key() says why
    local first = ttl < 0 and 'inf' or time[1] * 1000 + math.floor(time[2] / 1000) + ttl .. ''
    err = pcall('ZADD', S, first, sub(name, 2, 33), ends, id)
    if err ~= 2 then return err end
    local latest = ttl >= 0 and first > ends and first or ends
    if ttl >= 0 then err = pcall('PEXPIREAT', S, latest) end
    if type(err) == 'table' then
      pcall('DEL', S)
      return err
    end
    local set = pcall('HSET', K, 'hf1', fence .. (shared and '0000000000000001' or '0000000000000002')
      .. 'n9999999999999999x000000000000' .. owner, sub(name, 1, 33), 'x' .. fence .. value, 'h' .. id,
      mode .. fence .. value)
    err = set == 3 and pcall('HDEL', K, name) or set
    if err == 1 then
      if ttl >= 0 and latest ~= first then pcall('PEXPIREAT', K, latest) end
      return { stamp + 0, lease, 1, fence + 0, lease }
    end
    pcall('DEL', S)
    if set == 3 then
      pcall('DEL', K)
      pcall('HSET', K, name, owner)
      if ttl >= 0 then pcall('PEXPIREAT', K, first) end
    end
    return err
  end

  -- The first waiter.
  if how ~= 'x' or score ~= '0' or not waits then break end
  err = pcall('ZADD', Q, stamp, m, 'inf', '~')
  if err ~= 2 then return err end
  err = pcall('PEXPIRE', Q, '30000')
  if err == 1 then err = pcall('HDEL', K, '') end -- is it allowed?
  if err == 0 then err = pcall('SET', F, last .. '--------------------------------0000000000000', 'PX', '86400000') end
  if type(err) == 'table' and err.ok then
    local form = last > fence and '2' or '1'
    err = pcall('HSET', K, 'hf1', sub(name, 2, 33) .. form .. fence .. 'x000000000000' .. holder)
  end
  if err == 1 then
    pcall('HDEL', K, name)
    return { stamp + 0, ttl, 2, stamp + 0, 0 }
  end
  pcall('DEL', Q)
  return err
until true

local life = ARGV[7 * (#KEYS - 5) + 2]
--@include _state.lua
--@include _grant.lua

-- Check every number before the first write.
local function bad(what) return redis.error_reply('HOLDFAST ' .. what .. ' out of bounds') end
local floor = ARGV[1]
if not find(floor, '^%d+$') or tonumber(floor) > 9007199254740989 then return bad('fence floor') end
if #floor ~= 16 then floor = fmt('%016.0f', floor) end
local asks = {}
for i = 1, #KEYS - 5 do
  local at = 7 * i - 5
  local how, nests = ARGV[at + 3] or '', ARGV[at + 4] or ''
  local a = { id = ARGV[at], owner = ARGV[at + 1] or '', lease = tonumber(ARGV[at + 2]), mode = sub(how, 1, 1),
    permits = 0, weight = 1, nests = sub(nests, 1, 1) == '1', named = sub(nests, 2), member = ARGV[at + 5],
    score = tonumber(ARGV[at + 6]) }
  if a.mode == 's' then a.permits = tonumber(sub(how, 2)) end
  if a.mode == 'w' then
    local permits, weight = string.match(how, '^w(%d+):(%d+)$')
    a.mode, a.permits, a.weight = 's', tonumber(permits), tonumber(weight)
    if a.permits and (a.weight < 2 or a.weight > a.permits and a.permits > 0) then return bad('weight') end
    if a.permits == 0 then a.member = '' end -- it does not wait: it learns of the number first
  end
  if not (a.lease and (a.lease == 0 or (a.lease >= 10 and a.lease <= 315360000000 and a.lease % 1 == 0))) then
    return bad('lease')
  end
  if not (a.score and a.score >= -3600000000 and a.score < 9007199254740990) then return bad('score') end
  if not (a.permits and a.permits >= 0 and a.permits <= 9999999999 and a.permits % 1 == 0)
    or not (a.mode == 's' or how == 'x' or how == 'o') then
    return bad('mode')
  end
  if a.owner == '' or #a.owner > 4096 then return bad('owner') end
  a.ahead = math.max(-a.score, 0)
  if a.member ~= '' then
    local m = parse(a.member)
    if not m or m.id ~= a.id or m.mode ~= a.mode or m.permits ~= a.permits or m.weight ~= a.weight or m.lease ~= a.lease
      or m.owner ~= a.owner then
      return bad('member')
    end
    a.client = m.client
  end
  asks[i] = a
end
if spent() then return bad('the last fence is') end

local err = read()
if err then return err end
-- A floor above the last fence: the server has lost the fence, or a majority has given a greater
-- one. For a holder it is stored before the answer, because the answer "held" means that it is
-- stored; the first write is one that a full server allows, and it then allows the rest.
if floor > last then
  last = floor
  if asks[1] and hold(asks[1].id) then
    err = refused('ZREM', Q, '') or mend_one() or remember(last, mark, flagged)
  else
    err = mend_one()
  end
  if err then return err end
end

-- Change F and K so that no newcomer passes the queue: F is flagged, and a plain release finds
-- nothing.
local function guard()
  local err
  if not flagged then err = remember(last, mark, true) end
  if err or not held then return err end
  if held.form == 'taken' and held.x > 0 then
    err = refused('HDEL', K, '') -- is it allowed? The plain field must not stay
      or refused('HSET', K, 'hf1', one(held.id, held.fence, held.rest))
    if err then return err end
    refused('HDEL', K, 'h' .. held.id .. held.fence)
    held.form = 'one'
    return
  elseif held.form == 'taken' then
    err = spread() or held.first < math.huge and last_end(fmt('%.0f', held.first)) or nil
  elseif held.till then
    err = shut()
  else
    return
  end
  if call('EXISTS', K) == 0 then held = nil end -- its end has come
  return err
end
-- Choose the place of asker i: after the last; with a head start, earlier by that time, unless the
-- clock has stepped back to before the last, because it would then pass members that arrived long
-- before. Returns the place of the last; nil: the queue is empty.
local function place(a, i)
  local top = queued ~= false
    and tonumber(call('ZREVRANGEBYSCORE', Q, '(inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]) or nil
  local at = now + i - 1 -- in the order of the request
  a.score = top and top >= at and top + 1 or at - a.ahead
  return top
end
-- Join the queue: the member is written first, which a full server refuses, and nothing is left
-- behind.
local function join(a)
  local err = refused('ZADD', Q, fmt('%.0f', a.score), a.member, 'inf', '~')
  if err then return err end
  err = refused('PEXPIRE', Q, '30000') or guard()
  if err then
    refused('ZREM', Q, a.member)
  else
    queued = true
  end
  return err
end

local reply, asking, known = { now, 0 }, {}, nil
local function answer(i, state, x, y)
  reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = state, x, y
end
for i, a in ipairs(asks) do
  local ends, fence = hold(a.id)
  local outer, within, _, theirs, most
  if not ends and a.nests and held then
    if held.x > 0 and held.owner == a.owner then
      outer, within = true, held.fence
    elseif #a.named == 32 then
      outer, within, _, theirs, _, most = hold(a.named)
      if theirs ~= a.owner then outer = nil end
    end
  end
  local done = true
  if ends then
    -- With its whole lease left it would be taken for a new hold, and never be claimed.
    local rest = left(ends)
    answer(i, 1, tonumber(fence), rest == a.lease and rest - 1 or rest)
  elseif buried > sub(stamp, 1, 13) and call('EXISTS', KEYS[5 + i]) == 1 then
    answer(i, 3, 0, 0)
  elseif outer and held.x == 0 and (a.mode ~= 's' or a.weight > most) then
    answer(i, 9, 0, 0)
  elseif outer then
    err = add(a.id, a.mode == 's' and 's' or 'x', a.weight, within, NOBODY, a.owner, a.lease)
    if err then return err end
    answer(i, 1, tonumber(within), a.lease > 0 and a.lease or -1)
  elseif differs(a) then
    answer(i, 10, tonumber(sub(limit or '', 1, 10)) or 0, tonumber(sub(limit or '', 11)) or 0)
  elseif a.mode == 'o' and has_outcome() then
    answer(i, 5, known and '' or { outcome, call('HGET', R, 'n') or '', call('HGET', R, 'b') or '' },
      call('PTTL', R))
    known = true
  else
    done = false
  end
  if a.client then
    ghosts[a.client] = nil -- a client that asks is no ghost
    local stands = call('ZSCORE', Q, a.member)
    if stands and done then
      refused('ZREM', Q, a.member)
      queued = nil
    elseif stands then
      a.score, asking[a.id], queued = tonumber(stands), true, true
      err = guard()
    elseif not done then
      a.out = a.score > 0
      if a.out or a.ahead > 0 and place(a, i) then
        err = join(a)
        asking[a.id] = true
      end
    end
    if err then return err end
  end
  a.open = not done
end

local more
err, more = grant(asking)
local granted, waits = false, false
for i, a in ipairs(asks) do
  local got = asking[a.id]
  if type(got) == 'table' then
    granted = true
    answer(i, 1, tonumber(got[1]), got[2])
  elseif a.open and not got and not err and not more and fits(a) and not queued then
    -- It fits, and no waiter comes before it.
    local fence, refusal = later(last), nil
    if a.mode == 's' then
      refusal = add(a.id, 's', a.weight, fence, NOBODY, a.owner, a.lease)
    else
      refusal = put('taken', a.id, fence, 'x000000000000' .. a.owner, a.lease)
    end
    if refusal then return refusal end
    refusal = remember(fence, mark, false)
    if refusal then
      drop(a.id, math.huge, a.mode, a.weight)
      return refusal
    end
    granted = true
    answer(i, 1, tonumber(fence), a.lease > 0 and a.lease or -1)
  elseif a.open and a.client then
    if not got then
      if err and not granted then return err end
      place(a, i)
      local refusal = join(a)
      if refusal then return refusal end
      got, asking[a.id] = true, true
    end
    answer(i, (foreign and 4 or 2) + (a.out and 4 or 0), a.score, 0)
    a.waits, waits = true, true
  end
  if not reply[3 * i] then answer(i, 0, 0, 0) end
end
if err and (demoted or not (held or foreign or granted)) then return err end

if waits then
  -- Look at a few members, anywhere: gone waiters must not pile up behind a lock that is held for
  -- long.
  local size = call('ZCARD', Q)
  if size > 2 then
    local some = call('ZRANGE', Q, now % size, now % size + 3, 'WITHSCORES')
    for i = 1, #some, 2 do
      local m = some[i]
      if m == '~' or asking[sub(m, 1, 32)] or not gone(parse(m), tonumber(some[i + 1])) then break end
      refused('ZREM', Q, m)
    end
  end
  for i, a in ipairs(asks) do
    if a.waits then reply[3 * i + 2] = call('ZRANK', Q, a.member) or 0 end
  end
elseif not granted then
  refused('ZREM', Q, '') -- nothing was written: is this still the master?
end
settle()
if demoted then return demoted end

if more then
  reply[2] = -2
elseif held and (held.first or held.form == 'many') then
  local first = held.first or ms(call('ZRANGE', S, '0', '0', 'WITHSCORES')[2])
  reply[2] = first > now_ms and left(first) or -2 -- more have ended than one call takes out
elseif held or foreign then
  reply[2] = call('PTTL', K)
end
return reply
