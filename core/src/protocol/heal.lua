-- heal: give a TTL to a foreign lock without one, which would never end.
--
-- KEYS  K
-- ARGV  TTL in ms
-- Answers  1 given; 0 not foreign, or it has one
local K, ttl = KEYS[1], tonumber(ARGV[1])
if not (ttl and ttl >= 10 and ttl <= 315360000000 and ttl % 1 == 0) then
  return redis.error_reply('HOLDFAST lease out of bounds')
end
local ours = redis.pcall('HGET', K, 'hf1')
if type(ours) == 'string' or redis.call('PTTL', K) ~= -1 then return 0 end
return redis.call('PEXPIRE', K, ttl)
