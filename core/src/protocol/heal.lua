-- heal: give a TTL to a foreign lock without one, which would never end.
--
-- KEYS  K; and S, to heal also a lock of ours in the form many that has lost S
-- ARGV  TTL in ms
-- Answers  1 given; 0 not foreign, or it has one
local K, ttl = KEYS[1], tonumber(ARGV[1])
if not (ttl and ttl >= 10 and ttl <= 315360000000 and ttl % 1 == 0) then
  return redis.error_reply('HOLDFAST lease out of bounds')
end
if redis.call('PTTL', K) ~= -1 then return 0 end
local v = redis.pcall('HGET', K, 'hf1')
local ours = type(v) == 'string' and string.sub(v, 33, 33)
if ours == '1' or ours == '2' then return 0 end
if (ours == 'n' or ours == 'w' or ours == 'p') and not (KEYS[2] and redis.call('EXISTS', KEYS[2]) == 0) then return 0 end
if v == false and redis.call('HLEN', K) == 1 then
  local name = redis.call('HGETALL', K)[1]
  if #name == 49 and string.find(name, '^[hs]%x+$') then return 0 end
end
return redis.call('PEXPIRE', K, ttl)
