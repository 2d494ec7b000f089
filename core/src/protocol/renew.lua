-- renew: renew or check many holds in one call. A bad key does not make the others fail.
--
-- KEYS  the K of each hold, then any S
-- ARGV  for each hold: hold id and fence (48); lease in ms (0: never); mode: 0 never shorten it,
--       1 set it, shorter or not, 2 only look, 3 as 1, and keep it: from then on only a copy of
--       this request extends it; which of KEYS is its S, or 0
-- Answers  server µs; then for each hold the ms left, -1: never, -2: not held, -3: the server
--       refused, -4: nothing done, its S is needed
local replies, checked, checked_ms = {}, nil, nil
for i = 2, #ARGV, 4 do
  if ARGV[i] ~= checked then -- to read a number costs as much as a command
    local lease = tonumber(ARGV[i])
    if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
      return redis.error_reply('HOLDFAST lease out of bounds')
    end
    checked, checked_ms = ARGV[i], lease
  end
end

-- Short way: a hold of the form taken, whose field is its id and fence, on a server whose PEXPIRE
-- can refuse to shorten (GT, 7.0). All other cases, and errors, go the general way.
repeat
  local pcall, left = redis.pcall, #ARGV / 4
  for i = 1, left do
    local K, at = KEYS[i], 4 * i - 3
    local lease = ARGV[at + 1]
    if lease ~= checked then checked, checked_ms = lease, tonumber(lease) end
    if ARGV[at + 3] == '0' and ARGV[at + 2] == '0' and checked_ms > 0
      and type(pcall('HGET', K, 'h' .. ARGV[at])) == 'string' and pcall('PEXPIRE', K, lease, 'GT') == 1 then
      replies[1 + i], left = checked_ms, left - 1
    end
  end
  if left > 0 then break end
  local time = redis.call('TIME')
  replies[1] = time[1] * 1000000 + time[2]
  return replies
until true

local K, F, S
--@include _state.lua
local known = {} -- what look() found, by key and whether S was there to look into

-- Give a hold the id of a kept hold. Returns the server's error.
local function keep(id, fence)
  local new = KEPT .. sub(id, 17)
  held.id = new
  if held.form == 'taken' then
    local letter = held.x > 0 and 'h' or 's'
    return refused('HSET', K, letter .. new .. fence, held.owner) or refused('HDEL', K, letter .. id .. fence)
  elseif held.form == 'one' then
    return refused('HSET', K, 'hf1', new .. sub(call('HGET', K, 'hf1'), 33))
  end
  return refused('HSET', K, 'h' .. new, call('HGET', K, 'h' .. id)) or refused('ZADD', S, call('ZSCORE', S, id), new)
    or refused('HDEL', K, 'h' .. id) or refused('ZREM', S, id)
end

local function renew(id, fence, lease, mode)
  local name = K .. (S and '+' or '-')
  if known[name] then
    held, foreign = known[name].held, known[name].foreign
  else
    held, foreign = nil, false
    local err = look()
    if err then return -3 end
    known[name] = { held = held, foreign = foreign }
  end
  if held and held.form == 'many' and not S then return -4 end
  local at, ends = find_hold(id, fence)
  local kept, err = at ~= id, nil
  if not ends then
    if mode ~= '2' and not foreign then refused('HDEL', K, '') end -- is this still the master?
    return -2
  elseif mode == '2' or (kept and mode ~= '3') then
    -- Another program may have given the key an earlier end than the hold has.
    local ttl = held.form == 'many' and call('PTTL', K) or -1
    return ttl >= 0 and math.min(ttl, left(ends) == -1 and ttl or left(ends)) or left(ends)
  end
  ends, err = extend(at, ends, lease, mode == '1' or mode == '3')
  if mode == '3' and not kept and not err then err = keep(id, fence) end
  return err and -3 or left(ends)
end

replies[1] = now
for i = 1, #ARGV / 4 do
  if not replies[1 + i] then
    local at = 4 * i - 3
    K, S = KEYS[i], KEYS[tonumber(ARGV[at + 3]) or 0]
    local left_ms = renew(sub(ARGV[at], 1, 32), sub(ARGV[at], 33), tonumber(ARGV[at + 1]), ARGV[at + 2])
    if demoted then return demoted end
    replies[1 + i] = left_ms
  end
end
return replies
