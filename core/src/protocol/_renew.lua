-- An error of the whole server, not of one key: it is no longer the master, and the client
-- must look for the new one. The script answers the error unchanged.
local function elsewhere(reply)
  return string.find(reply.err, 'READONLY', 1, true) or string.find(reply.err, 'MASTERDOWN', 1, true)
end

-- Move one hold's own expiry. mode: 0 never shorten it; 1 set it, shorter or not; 2 only
-- look. Answers the remaining ms, -1: never, -2: not held, -3: the server refused; or the
-- server's error, if it is elsewhere(). The key's TTL stays the latest of its holds', also where
-- somebody else has set it. It is moved first: a full server allows that, and then the rest.
local function renew(K, id, lease, mode)
  local field = 'h' .. id
  local held = redis.pcall('HMGET', K, 'hf1', field)
  if held.err then
    if elsewhere(held) then return held end
    return string.find(held.err, 'WRONGTYPE', 1, true) and -2 or -3
  end
  local mine = tonumber(held[2] or nil)
  if not (held[1] and mine and live(mine)) then return -2 end
  if mode == '2' then
    -- Somebody may have given the key an earlier end than the hold's.
    local ttl, left = redis.pcall('PTTL', K), remaining(mine)
    if type(ttl) == 'table' then return elsewhere(ttl) and ttl or -3 end
    return ttl >= 0 and (left == -1 or ttl < left) and ttl or left
  end
  local ends = lease > 0 and now_ms + lease or 0
  local longer = mine ~= 0 and (ends == 0 or ends > mine)
  if mode == '0' and not longer then ends = mine end

  -- Computed from the holds, not from the TTL: the TTL is counted from a later time than
  -- now_ms, and each of many renewals would cut a millisecond off another's hold.
  local latest = ends
  local fields = redis.pcall('HLEN', K) == 3 and {} or redis.pcall('HGETALL', K)
  if fields.err then return elsewhere(fields) and fields or -3 end
  for i = 1, #fields, 2 do
    local name = fields[i]
    if name ~= field and name ~= 'hf1' and string.sub(name, 1, 1) == 'h' and latest > 0 then
      local other = tonumber(fields[i + 1]) or -1
      latest = other == 0 and 0 or math.max(latest, other)
    end
  end
  local moved
  if latest == 0 then
    moved = redis.pcall('PERSIST', K)
  else
    moved = redis.pcall('PEXPIREAT', K, latest)
  end
  if type(moved) == 'table' then return elsewhere(moved) and moved or -3 end
  if ends == mine then return remaining(ends) end
  moved = redis.pcall('HSET', K, field, ends)
  return type(moved) == 'table' and -3 or remaining(ends)
end
