-- inspect: list the holders and the waiters of the lock. Changes nothing.
--
-- KEYS  K, Q, S, R, F; or K alone, while their slot is being moved
-- ARGV  how many holds and waiters to skip, and the most to list; 1: with the bytes of the record
-- Answers  0 free, 1 exclusive, 2 shared, 3 foreign, 4 foreign and perhaps no lock, and 8 more with
--       K alone; holds; waiters; ms until the last hold ends (-1: no end); ms of the record, or those that it will get
--       (-1: no end, -2: there is no record); server µs; the holds: id, mode, fence, ms left,
--       owner, weight of each; the waiters: id, mode, score, timeout, permits, owner, weight of
--       each; the record { hf1, n, b or empty, 1 if its call is in progress }, or nothing; permits
--       and ms of the stored limit, or 0, 0
local K, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local F
--@include _state.lua
local err = look()
if err then return err end
local skip, most = tonumber(ARGV[1]) or 0, tonumber(ARGV[2]) or 0
local state, count, holds, waiters = 0, 0, {}, {}
local ttl = call('PTTL', K)
local function list(to, ...)
  for _, value in ipairs({ ... }) do to[#to + 1] = value end
end

-- Return whether a foreign K is a lock: a damaged or later form of ours; or one of Redisson's, a
-- hash of <UUID>:<thread> = count, with the mode of a read-write lock. Many or large values of
-- another application are not read.
local function tells_a_lock()
  local size = pcall('HLEN', K)
  if type(size) ~= 'number' or size > 100 then return false end
  if call('HGET', K, 'hf1') then return true end
  local mode = size > 1 and call('HGET', K, 'mode')
  if size > 1 and mode ~= 'read' and mode ~= 'write' then return false end
  local all = call('HGETALL', K)
  for i = 1, #all, 2 do
    if all[i] ~= 'mode' and not find(all[i], '^%x+%-%x+%-%x+%-%x+%-%x+:%d+') then return false end
  end
  return true
end

if foreign then
  state = tells_a_lock() and 3 or 4
elseif held and held.form ~= 'many' then
  state, count = held.x > 0 and 1 or 2, 1
  if skip == 0 and most > 0 then
    list(holds, held.id, sub(held.rest, 1, 1), tonumber(held.fence), ttl, held.owner, 1)
  end
elseif held and not S then
  -- Their ends are on the other server: none is later than K's.
  local all = call('HGETALL', K)
  for i = 1, #all, 2 do
    local v = all[i + 1]
    if all[i] ~= 'hf1' then
      count = count + 1
      if count > skip and count <= skip + most then
        local fence, mode, owner, _, weight = field(v)
        list(holds, sub(all[i], 2), mode, tonumber(fence), ttl, owner, weight)
      end
    end
  end
  if count > 0 then state = held.x > 0 and 1 or 2 end
elseif held then
  local live = '(' .. fmt('%.0f', now_ms)
  count = call('ZCOUNT', S, live, '+inf')
  local ids = most > 0 and call('ZRANGEBYSCORE', S, live, '+inf', 'LIMIT', skip, most) or {}
  for _, id in ipairs(ids) do
    local ends, fence, mode, owner, _, weight = hold(id)
    if ends then list(holds, id, mode, tonumber(fence), left(ends), owner, weight) end
  end
  if count > 0 then
    -- Do not count exclusive holds that have ended: perhaps only nested shared ones are left.
    for _, id in ipairs(held.x > 0 and call('ZRANGEBYSCORE', S, '-inf', sub(live, 2), 'LIMIT', 0, 150) or {}) do
      if sub(call('HGET', K, 'h' .. id) or '', 1, 1) == 'x' then held.x = held.x - 1 end
    end
    state = held.x > 0 and 1 or 2
    ttl = left(ms(call('ZRANGE', S, '-1', '-1', 'WITHSCORES')[2])) -- K may live for longer
  end
end

if not Q then return { state + 8, count, 0, ttl, -2, now, holds, waiters, {}, 0, 0 } end
local queued = pcall('ZCARD', Q)
if type(queued) == 'table' then queued = 0 end
if queued > 0 and call('ZSCORE', Q, '~') then queued = queued - 1 end
-- A hold of several masters that lacks this master's vote stands first in the queue here, and is no
-- waiter.
local holding = queued > 0 and call('ZCOUNT', Q, 1, 1) or 0
queued, skip = queued - holding, skip + holding
local members = most > 0 and queued > 0 and call('ZRANGE', Q, skip, skip + most - 1, 'WITHSCORES') or {}
for i = 1, #members, 2 do
  local m = members[i]
  if m ~= '~' then
    local mode = sub(m, 76, 76)
    local heavy = mode == 'w'
    local shared = heavy or mode == 's'
    list(waiters, sub(m, 1, 32), heavy and 's' or mode, tonumber(members[i + 1]),
      tonumber(sub(m, 66, 75)) or -1, shared and tonumber(sub(m, 89, 98)) or 0,
      sub(m, heavy and 109 or shared and 99 or 89), heavy and tonumber(sub(m, 99, 108)) or 1)
  end
end

local record, ms = {}, -2
local known = pcall('HGET', R, 'hf1')
if type(known) == 'string' then
  local runs = held and held.x > 0 and held.fence == sub(known, 34, 49)
  record = { known, call('HGET', R, 'n') or '', ARGV[3] == '1' and call('HGET', R, 'b') or '', runs and 1 or 0 }
  ms = call('PTTL', R)
  if ms < 0 and sub(known, 33, 33) == 'b' then ms = tonumber(call('HGET', R, 'b')) or ms end
end
local stored_limit = KEYS[5] and type(pcall('GET', KEYS[5])) == 'table' and pcall('HGET', KEYS[5], 'l')
if type(stored_limit) ~= 'string' then stored_limit = '' end
return { state, count, queued, ttl, ms, now, holds, waiters, record, tonumber(sub(stored_limit, 1, 10)) or 0,
  tonumber(sub(stored_limit, 11)) or 0 }
