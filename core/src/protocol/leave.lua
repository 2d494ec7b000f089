-- leave: end one hold with the lock's key alone, while a cluster moves the slot and refuses
-- scripts of several keys. Grants nothing: waiters find out by asking, as after a crash.
-- The mark of an unclaimed grant stays, and costs the waiters of its client one more
-- question.
--
-- KEYS  K
-- ARGV  hold id, fence (16 digits)
-- Answers  0 not held; 1 released; 3 nothing done: the form many, ask `release` later
local K, id, fence = KEYS[1], ARGV[1], ARGV[2]
local v = redis.pcall('HGET', K, 'hf1')
if type(v) == 'table' then
  return string.find(v.err, 'WRONGTYPE', 1, true) and 0 or v
end
if not v then return redis.call('HDEL', K, 'h' .. id .. fence) end
if string.find(v, '^[nw]', 33) then return 3 end
return string.find(v, '^' .. id .. '[12]' .. fence) and redis.call('DEL', K) or 0
