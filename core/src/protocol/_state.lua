-- The state of K, F and S, and every way to change it. docs/protocol.md has the columns. Needs
-- locals K and S; F, or nil if it is not used; and, if F may change, life: the life of a plain F
-- (ms), or nil for a day.
local call, pcall, sub = redis.call, redis.pcall, string.sub
local find, fmt = string.find, string.format
local NOBODY = '--------------------------------'
local time = call('TIME')
local stamp = sub('000000000' .. time[1], -10) .. sub('00000' .. time[2], -6)
local now = stamp + 0
local now_ms = (now - now % 1000) / 1000

-- Run a command; returns the server's error, if there was one. If the server is no longer the
-- master, that is the answer to the client, whatever else the script found.
local demoted
local function failed(reply)
  if type(reply) ~= 'table' or not reply.err then return end
  if find(reply.err, 'READONLY', 1, true) or find(reply.err, 'MASTERDOWN', 1, true) then demoted = reply end
  return reply
end
local function refused(...) return failed(pcall(...)) end
-- Delete keys; without the permission for DEL, by an end that has passed.
local function delete(...)
  local err = refused('DEL', ...)
  if err then err = refused('PEXPIREAT', K, '1') end
  return err
end

-- Fences have 16 digits, so that they compare as texts: to read or print a number costs as much as
-- a command.
local stored, limit = F and pcall('GET', F), nil
if type(stored) == 'table' then
  -- A limit is stored: F is a hash.
  limit = pcall('HGET', F, 'l')
  if type(limit) ~= 'string' or #limit ~= 22 then return stored end
  stored = call('HGET', F, 'f')
end
local last, mark, buried, flagged = '0000000000000000', NOBODY, '0000000000000', false
if stored and (#stored == 16 or #stored == 61) then
  last = sub(stored, 1, 16)
  if #stored == 61 then mark, buried, flagged = sub(stored, 17, 48), sub(stored, 49), true end
end
-- Return whether the fences are used up: no lock can be granted, but holds can be released.
local function spent() return last >= '9007199254740989' or stamp >= '9007199254740989' end
local function later(fence) -- the next one after it
  return fence < stamp and stamp or fmt('%016.0f', fence + 1)
end

-- Write F: flagged while there is a queue, an unclaimed grant or a dead id. It lives for its life,
-- or for a day if it is flagged, after the later of clock and fence.
local function lives(flag) return not flag and life or '86400000' end
local function remember(fence, client, flag)
  if buried <= sub(stamp, 1, 13) then buried = '0000000000000' end
  flag = flag or client ~= NOBODY or buried ~= '0000000000000'
  local value = flag and fence .. client .. buried or fence
  local err
  if limit then
    err = refused('HSET', F, 'f', value, 'l', limit)
  elseif fence <= stamp then
    err = refused('SET', F, value, 'PX', lives(flag))
  else
    err = refused('SET', F, value, 'PXAT', fmt('%.0f', math.floor(fence / 1000) + lives(flag)))
  end
  if not err then stored, last, mark, flagged = value, fence, client, flag end
  return err
end

-- held: nil if the lock is free. form: taken, one, many; x: the number of exclusive holds; id,
-- fence and owner: of the exclusive holds, or of a shared hold in the form taken. n: the number of
-- all holds; extra: the sum of their weights beyond one each. For the form many, first: the first
-- end; till: K lives at least until then (ms, 13 digits), and the queue is empty.
local held, foreign = nil, false

local function header()
  if held.x == 0 then held.fence, held.owner = '0000000000000000', '' end
  return held.fence .. sub('000000000000000' .. held.x, -16) .. (held.extra > 0 and 'w' or 'n')
    .. '9999999999999999' .. (held.x > 0 and 'x' or 's') .. (held.extra > 0 and fmt('%012.0f', held.extra) or '000000000000') .. held.owner
end
local function ms(score) -- an end as a number
  return score == 'inf' and math.huge or tonumber(score)
end
local function left(ends) return ends == math.huge and -1 or ends - now_ms end

-- Return the value of K in the form one, with a 2 if F has more than the fence, or a limit:
-- otherwise `wait` and the short `release` do not read F.
local function one(id, fence, rest)
  return id .. ((limit or buried > sub(stamp, 1, 13) or last > fence) and '2' or '1') .. fence .. rest
end
local function mend_one() -- after F has changed
  if held and held.form == 'one' then return refused('HSET', K, 'hf1', one(held.id, held.fence, held.rest)) end
end
-- Bury an id: every later acquire with it is refused. Returns the server's error.
local function bury(dead)
  local err = refused('SET', dead, '1', 'PX', '600000')
  if err then return err end
  buried = fmt('%013.0f', now_ms + 600000)
  return mend_one() or remember(last, mark, flagged)
end

-- Read the form of K. Returns the server's error, if there was one.
local function look()
  local v = pcall('HGET', K, 'hf1')
  if failed(v) then
    if not find(v.err, 'WRONGTYPE', 1, true) then return v end
    foreign = true
  elseif not v then
    local size = call('HLEN', K)
    local only = size == 1 and call('HGETALL', K) or { '' }
    if #only[1] == 49 and find(only[1], '^[hs]%x+$') then
      local shared = sub(only[1], 1, 1) == 's'
      held = { form = 'taken', id = sub(only[1], 2, 33), fence = sub(only[1], 34), owner = only[2],
        rest = (shared and 's' or 'x') .. '000000000000' .. only[2], x = shared and 0 or 1, n = 1, extra = 0 }
    else
      foreign = size > 0
    end
  elseif find(v, '^[12]', 33) then
    held = { form = 'one', id = sub(v, 1, 32), fence = sub(v, 34, 49), owner = sub(v, 63),
      rest = sub(v, 50), x = 1 }
  elseif find(v, '^[nwp]', 33) then
    held = { form = 'many', fence = sub(v, 1, 16), owner = sub(v, 63), x = tonumber(sub(v, 17, 32)),
      extra = tonumber(sub(v, 51, 62)) or 0, till = sub(v, 33, 33) == 'p' and sub(v, 37, 49) or nil }
    -- Without S the end of the hold is not known: the lock is busy until K's own end.
    held.n = S and call('ZCARD', S)
    if held.n == 0 then held, foreign = nil, true end
  else
    foreign = true -- of a later format
  end
end

-- Read a field of the form many: fence, mode, owner, client, weight. A heavy hold has a w.
local function field(v)
  local heavy = sub(v, 1, 1) == 'w'
  return sub(v, 2, 17), heavy and 's' or sub(v, 1, 1), sub(v, heavy and 60 or 50), sub(v, 18, 49),
    heavy and tonumber(sub(v, 50, 59)) or 1
end

-- Return one hold: its end (ms), fence, mode, owner, its client if it is pushed and unclaimed, and
-- its weight; nil: it is not held.
local function hold(id)
  if not held then return end
  if held.form ~= 'many' then
    if held.id ~= id then return end
    local ttl = call('PTTL', K)
    return ttl < 0 and math.huge or now_ms + ttl, held.fence, held.x > 0 and 'x' or 's', held.owner, mark, 1
  end
  local ends = ms(call('ZSCORE', S, id) or nil)
  if not ends or ends <= now_ms then return end
  local v = call('HGET', K, 'h' .. id)
  if v then return ends, field(v) end
end

-- Return the hold with that fence, or with any fence if it is empty: its id, and then as hold(). A
-- kept hold has an id of its own, so that no earlier request extends it; but its client, which may
-- not have received the answer, can look at it, and release it.
local KEPT = '0000000000000000'
local function find_hold(id, fence)
  local ends, granted, mode, owner, client, weight = hold(id)
  if ends and granted ~= fence and fence ~= '' then ends = nil end
  if ends or fence == '' then return id, ends, granted, mode, owner, client, weight end
  id = KEPT .. sub(id, 17)
  ends, granted, mode, owner, client, weight = hold(id)
  return id, granted == fence and ends or nil, granted, mode, owner, client, weight
end

-- Let K, and S with it, end with the last hold: `ends` as S has it; or later, if `till` is later.
local function last_end(ends)
  if held and held.till and ends ~= 'inf' and ends + 0 < held.till + 0 then ends = held.till end
  if ends == 'inf' then
    local till = held.till
    held.till = nil
    return till and refused('HSET', K, 'hf1', header()) or refused('PERSIST', K) or refused('PERSIST', S)
  end
  return refused('PEXPIREAT', S, ends) or refused('PEXPIREAT', K, ends)
end

-- Give another lease to a hold that now has `ends`; never a shorter one, unless `exactly`. The ends
-- of the keys are set first, which a full server allows, and it then allows the rest. They are set
-- even if no hold's end is later: another program may have brought them forward. Returns the hold's
-- end, and the server's error.
local function extend(id, ends, lease, exactly)
  local new = lease > 0 and now_ms + lease or math.huge
  if new == ends or (new < ends and not exactly) then return ends, refused('HDEL', K, '') end
  local score, err = lease > 0 and fmt('%.0f', new) or 'inf', nil
  if held.form ~= 'many' then
    if lease > 0 then err = refused('PEXPIREAT', K, score) else err = refused('PERSIST', K) end
  else
    local known = held.latest
    local latest = known or call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]
    if ms(latest) < new then latest = score end
    err = latest ~= known and last_end(latest) or refused('HDEL', K, '')
      or refused('ZADD', S, 'XX', score, id)
    held.latest = latest
    if not err and new < ends then
      held.latest = call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2]
      err = held.latest ~= latest and last_end(held.latest) or nil
    end
  end
  return err and ends or new, err
end
