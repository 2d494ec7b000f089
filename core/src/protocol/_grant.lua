-- Decides who gets the lock: the general scripts read and change K and Q through this file. Needs
-- _state.lua, and locals Q and R.

-- Clients that let a pushed grant run out. Their members leave the queue; live clients come back
-- with their first score.
local ghosts = {}

-- Remove ended holds from the form many; when no exclusive hold is left, it is shared.
local function prune_holds()
  local x, extra = held.x, held.extra
  for _, id in ipairs(call('ZRANGEBYSCORE', S, '-inf', now_ms, 'LIMIT', 0, 150)) do
    local v = call('HGET', K, 'h' .. id)
    refused('HDEL', K, 'h' .. id)
    refused('ZREM', S, id)
    held.n = held.n - 1
    if v then
      local _, mode, _, client, weight = field(v)
      if mode ~= 's' then held.x = held.x - 1 end
      held.extra = held.extra - weight + 1
      if client ~= NOBODY then ghosts[client] = true end
      if client == mark then mark = NOBODY end
    end
  end
  if held.n == 0 then
    delete(K, S)
    held = nil
  else
    if held.x ~= x or held.extra ~= extra then refused('HSET', K, 'hf1', header()) end
    held.first = ms(call('ZRANGE', S, '0', '0', 'WITHSCORES')[2])
    -- All holds may have ended where K lives longer than its shared holds.
    if held.first <= now_ms and ms(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]) <= now_ms then
      delete(K, S)
      held = nil
    end
  end
end

-- Read K as it is now. Returns the server's error, if there was one.
local function read()
  local err = look()
  if err then return err end
  if held and held.form == 'many' then
    held.first = ms(call('ZRANGE', S, '0', '0', 'WITHSCORES')[2])
    if held.first <= now_ms then prune_holds() end
  end
  if held then
    if held.fence > last then last = held.fence end -- F is lost
  elseif mark ~= NOBODY then
    ghosts[mark], mark = true, NOBODY
  end
end

-- End one existing hold, with all that its removal changes. Returns the server's error.
local function drop(id, ends, mode, weight)
  local err
  if held.form ~= 'many' or held.n == 1 then
    if held.form == 'many' then err = delete(K, S) else err = delete(K) end
    if not err then held = nil end
    return err
  end
  err = refused('ZREM', S, id)
  if err then return err end
  refused('HDEL', K, 'h' .. id)
  held.n, held.first = held.n - 1, nil
  if mode ~= 's' or weight > 1 then
    if mode ~= 's' then held.x = held.x - 1 end
    held.extra = held.extra - weight + 1
    refused('HSET', K, 'hf1', header())
  end
  local latest = call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]
  if ms(latest) < ends then
    last_end(latest)
    -- If that end has passed, the server has deleted K.
    if call('EXISTS', K) == 0 then held = nil end
  end
end

-- Begin the only, exclusive hold of a free K: in the form one if F is flagged for a queue. All or
-- nothing; returns the server's error.
local function put(form, id, fence, rest, lease)
  local err
  local owner = sub(rest, 14)
  if form == 'one' then
    err = refused('HSET', K, 'hf1', one(id, fence, rest))
  else
    err = refused('HSET', K, 'h' .. id .. fence, owner)
  end
  if err then return err end
  local ends = lease > 0 and now_ms + lease or math.huge
  if lease > 0 then err = refused('PEXPIREAT', K, fmt('%.0f', ends)) end
  if err then
    delete(K)
    return err
  end
  held = { form = form, id = id, fence = fence, owner = owner, rest = rest, x = 1, first = ends }
end

-- Return the end of K, for S: as a number and as a score. A server up to 7.0 reads its clock for
-- the time left; if it stood still after the script first read the clock, only a later reading errs
-- on the safe side.
local function end_of_key()
  local ttl = call('PTTL', K)
  if ttl < 0 then return math.huge, 'inf' end
  local time = call('TIME')
  local ends = time[1] * 1000 + math.floor(time[2] / 1000) + ttl
  return ends, fmt('%.0f', ends)
end

-- Change a shared hold in the form taken to the form many, in which a plain HDEL finds nothing, and
-- a release looks at the queue. All or nothing; returns the server's error. The caller sets the
-- ends after it has added its hold: a server deletes K at once if its end is now.
local function spread()
  local was, first, ends = held, end_of_key()
  if call('EXISTS', S) == 1 then call('DEL', S) end
  held = { form = 'many', fence = '', owner = '', x = 0, n = 1, extra = 0, first = first }
  local err = refused('ZADD', S, ends, was.id) or refused('HDEL', K, '') -- is it allowed?
    or refused('HSET', K, 'hf1', header(), 'h' .. was.id, 's' .. was.fence .. NOBODY .. was.owner)
  if err then
    refused('DEL', S)
    held = was
    return err
  end
  refused('HDEL', K, 's' .. was.id .. was.fence)
end

-- Let K end with its last hold, without `till`. Returns the server's error.
local function shut()
  if not held.till then return end
  held.till = nil
  return refused('HSET', K, 'hf1', header()) or last_end(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2])
end

-- Add a hold, in the form many, which it may begin. All or nothing; returns the server's error.
local function add(id, mode, weight, fence, client, owner, lease)
  local ends = lease > 0 and now_ms + lease or math.huge
  local score = lease > 0 and fmt('%.0f', ends) or 'inf'
  local value = (weight > 1 and 'w' or mode) .. fence .. client
    .. (weight > 1 and fmt('%010.0f', weight) or '') .. owner
  local spreads = held and held.form == 'taken' and held.x == 0
  local err = spreads and spread() or nil
  if err then return err end
  local was, alone = held, not held
  if held and held.form == 'many' then
    if held.extra + weight - 1 > 999999999999 then
      return redis.error_reply('HOLDFAST weight out of bounds')
    end
    err = weight > 1 and shut() or refused('ZADD', S, score, id)
    if err then return err end
    if mode ~= 's' or weight > 1 then
      if mode ~= 's' then held.x = held.x + 1 end
      held.extra = held.extra + weight - 1
      err = refused('HSET', K, 'hf1', header(), 'h' .. id, value)
    else
      err = refused('HSET', K, 'h' .. id, value)
    end
    held.n = held.n + 1
    if not err and (spreads or call('ZREVRANK', S, id) == 0) then
      err = last_end(spreads and held.first > ends and fmt('%.0f', held.first) or score)
    end
  else
    -- A lost K may have left it behind.
    if call('EXISTS', S) == 1 then call('DEL', S) end
    if alone then
      held = { form = 'many', fence = '', owner = '', x = mode == 's' and 0 or 1, n = 1,
        extra = weight - 1, first = ends }
      err = refused('ZADD', S, score, id) or refused('HSET', K, 'hf1', header(), 'h' .. id, value)
      if not err then err = last_end(score) end
    else
      local first, till = end_of_key()
      held = { form = 'many', fence = was.fence, owner = was.owner, x = mode == 's' and 1 or 2, n = 2,
        extra = weight - 1, first = first }
      err = refused('ZADD', S, till, was.id, score, id)
        or refused('HDEL', K, '') -- is it allowed? A plain field must not stay
        or refused('HSET', K, 'hf1', header(), 'h' .. was.id, 'x' .. was.fence .. mark .. was.owner,
          'h' .. id, value)
      if err then
        refused('DEL', S)
        held = was
        return err
      end
      if was.form == 'taken' then refused('HDEL', K, 'h' .. was.id .. was.fence) end
      err = last_end(first > ends and till or score)
    end
  end
  if err then
    drop(id, math.huge, mode, weight)
    return err
  end
  if held.first and ends < held.first then held.first = ends end
end

-- Read the columns of a member; nil: it has other columns.
local function parse(m)
  local mode = sub(m, 76, 76)
  local a = { member = m, id = sub(m, 1, 32), client = sub(m, 33, 64), kind = sub(m, 65, 65),
    timeout = tonumber(sub(m, 66, 75)), mode = mode, lease = tonumber(sub(m, 77, 88)), permits = 0, weight = 1 }
  if mode == 's' then
    a.permits, a.owner = tonumber(sub(m, 89, 98)), sub(m, 99)
  elseif mode == 'w' then
    a.mode, a.permits, a.weight, a.owner = 's', tonumber(sub(m, 89, 98)), tonumber(sub(m, 99, 108)), sub(m, 109)
    if not a.permits or not a.weight or a.weight < 2 or a.weight > a.permits then return end
  else
    a.owner = sub(m, 89)
  end
  if (a.mode == 'x' or a.mode == 'o' or a.mode == 's') and (a.kind == 'p' or a.kind == 's') and a.timeout
    and a.permits and a.owner ~= '' and a.lease and (a.lease == 0 or a.lease >= 10)
    and a.lease <= 315360000000 then
    return a
  end
end
local function channel(a)
  if a.kind == 'p' then return 'hf:' .. a.client end
  return 'hf:{' .. (string.match(K, '^[^{]*{([^}]+)}') or K) .. '}:' .. a.client
end
local function publish(a, text)
  return refused(a.kind == 's' and 'SPUBLISH' or 'PUBLISH', channel(a), text)
end

-- Return whether a waiter has gone. Done before PUBLISH, whose count does not show who can still
-- receive the message. nil and an error: this user has no permission to ask. A server without
-- sharded channels has no listener on any.
local heard = {}
local function gone(a, score)
  if not a or (a.timeout > 0 and score + a.timeout * 1000 <= now) then return true end
  local name = channel(a)
  if heard[name] == nil then
    local count = pcall('PUBSUB', a.kind == 's' and 'SHARDNUMSUB' or 'NUMSUB', name)
    if count.err and not find(count.err, 'nknown', 1, true) then return nil, count end
    heard[name] = not count.err and (tonumber(count[2]) or 0) > 0
  end
  return not heard[name]
end

-- Return the head of the queue and its score; or nil and an error. A plain F shows that the queue
-- is empty. queued: whether there is a waiter; nil: not known. ended: ~ is there, which keeps the
-- queue and its TTL while waiters come and go.
local queued, ended = nil, false
if stored and not flagged then queued = false end
local function head()
  if queued == false then return end
  local first = pcall('ZRANGE', Q, '0', '0', 'WITHSCORES')
  if first.err then return nil, first end
  ended = first[1] == '~'
  queued = first[1] ~= nil and not ended
  if queued then return first[1], first[2] end
end

-- Return whether a member may hold the lock now: the one rule for all.
local function fits(a)
  if foreign then return false end
  if not held then return true end
  return a.mode == 's' and held.x == 0 and (a.permits == 0 or held.n + held.extra + a.weight <= a.permits)
end

-- Return whether a shared member gives another number than the stored one; or a weight, and no
-- number.
local function differs(a)
  if a.mode ~= 's' then return false end
  if not limit then return a.permits == 0 and a.weight > 1 end
  local per = sub(limit, 11) + 0
  return a.permits ~= sub(limit, 1, 10) + 0 or (per > 0 and a.lease ~= per)
end

-- Return the record of an outcome, for members of mode o; or the error of a record of another type.
-- A call that has begun, and whose hold has ended, has one: its outcome is unknown. outcome: nil
-- before the first look; K and R do not change after it.
local outcome
local function has_outcome()
  if outcome == nil then
    local v = pcall('HGET', R, 'hf1')
    local kind = type(v) == 'string' and sub(v, 33, 33)
    local unknown = kind == 'b' and not (held and held.x > 0 and held.fence == sub(v, 34, 49))
    outcome = (kind == 'd' or kind == 'e' or unknown or not kind) and v
    -- Its time runs from the first report to a caller: before that no caller makes the call again.
    local ms = unknown and call('HGET', R, 'b') or ''
    if ms ~= '' and call('PTTL', R) < 0 then refused('PEXPIRE', R, ms) end
  end
  return outcome
end
-- Send one message for all waiters of a client that must ask again: for the outcome, or with
-- another number.
local told = {}
local function tell(a)
  local err = refused('ZREM', Q, a.member)
  if err or told[a.client] then return err end
  told[a.client] = true
  publish(a, 'r' .. a.id .. stamp)
end

-- Hand the lock on: to the first live waiters of the queue, while they fit.
--
-- asking  hold id -> true for the caller's own ids: they are alive, and get an answer instead of a
--         message: asking[id] becomes { fence, ms left }
--
-- Returns the server's error, if it refused a command; and whether there is more to do. A refused
-- grant is undone: the waiter stays the first, and its re-check will ask.
local function grant(asking)
  if next(ghosts) and queued ~= false then
    for _, m in ipairs(pcall('ZRANGE', Q, 0, 299)) do
      if ghosts[sub(m, 33, 64)] and not asking[sub(m, 1, 32)] then refused('ZREM', Q, m) end
    end
  end
  for _ = 1, 50 do
    local m, score = head()
    if not m then return score end
    local a = parse(m)
    local mine, over, err = a and asking[a.id], nil, nil
    if not mine then
      over, err = gone(a, score)
      if err then return err end
    end
    if over then
      err = refused('ZREM', Q, m)
      if err then return err end
    elseif not mine and (differs(a) or a.mode == 'o' and has_outcome()) then
      err = tell(a)
      if err then return err end
    elseif spent() or not fits(a) then
      return
    else
      local fence, client, lease = later(last), NOBODY, a.lease
      -- A pushed grant lasts only until its claim, so that a waiter whose machine died with its
      -- connection open does not delay the others by a whole lease.
      if not mine then client, lease = a.client, (lease == 0 or lease > 3000) and 3000 or lease end
      err = refused('ZREM', Q, m)
      if err then return err end
      if a.mode == 's' then
        err = add(a.id, 's', a.weight, fence, client, a.owner, lease)
      else
        err = put('one', a.id, fence, sub(m, 76), lease)
      end
      if not err then
        err = remember(fence, mine and mark or client, true)
        if not err and not mine then err = publish(a, 'g' .. a.id .. fence .. stamp) end
        if err then
          drop(a.id, math.huge, a.mode, a.weight)
          mark = NOBODY
        end
      end
      if err then
        refused('ZADD', Q, score, m, 'inf', '~') -- refused if it was the last of a slot being moved
        queued = true
        return err
      end
      if mine then asking[a.id] = { fence, lease > 0 and lease or -1 } end
    end
  end
  queued = nil
  return nil, true
end

-- Leave a queue that lives longer than the pause between re-checks, but not longer than its
-- waiters; and F flagged as long as a `take` must not pass.
local function settle()
  if queued == nil then head() end
  local waits = held ~= nil and held.form == 'one' -- for a queue
  if queued then
    refused('PEXPIRE', Q, '30000')
  elseif ended and not waits then
    refused('DEL', Q)
  end
  local flag = queued or waits or buried > sub(stamp, 1, 13)
  if flag ~= flagged or mark ~= (stored and flagged and sub(stored, 17, 48) or NOBODY)
    or last ~= (stored and sub(stored, 1, 16) or '0000000000000000') then
    remember(last, mark, flag)
  elseif flag and not limit then
    refused('PEXPIREAT', F, fmt('%.0f', math.floor((last > stamp and last or now) / 1000) + 86400000))
  end
end
