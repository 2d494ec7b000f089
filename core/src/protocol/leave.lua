-- leave: end one hold with few keys. With K alone while a cluster moves the slot and refuses
-- scripts with several keys; with S, end a young shared hold. Grants nothing: the waiters find out
-- by a re-check, as after a crash. The mark of an unclaimed grant stays, and costs the waiters of
-- its client one more request.
--
-- KEYS  K; and S
-- ARGV  hold id, fence (16 digits)
-- Answers  0 not held; 1 released; 3 nothing done: the form many, send `release`
local K, S, id, fence = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local v = redis.pcall('HGET', K, 'hf1')
if type(v) == 'table' then
  return string.find(v.err, 'WRONGTYPE', 1, true) and 0 or v
end
if not v then return redis.call('HDEL', K, 'h' .. id .. fence, 's' .. id .. fence) end
local form = string.sub(v, 33, 33)
if form == 'p' and S then
  -- The queue is empty.
  local field = redis.call('HGET', K, 'h' .. id)
  if not field or string.sub(field, 2, 17) ~= fence or redis.call('ZREM', S, id) ~= 1 then return 3 end
  redis.pcall('HDEL', K, 'h' .. id)
  if redis.call('EXISTS', S) == 0 then redis.pcall('DEL', K) end
  return 1
end
if form == 'p' or form == 'n' or form == 'w' then return 3 end
return string.find(v, '^' .. id .. '[12]' .. fence) and (S and 3 or redis.call('DEL', K)) or 0
