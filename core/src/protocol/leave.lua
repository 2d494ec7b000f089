-- leave: end one hold with the lock's key alone, while a cluster moves the slot and refuses
-- scripts of several keys. Grants nothing: waiters find out by asking, as after a crash.
-- The mark of an unclaimed grant stays, and costs the waiters of its channel one more
-- question.
--
-- KEYS  K
-- ARGV  hold id
-- Answers  as release: 0 not held; 1 released
local K, field = KEYS[1], 'h' .. ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
--@include _live.lua
local fields = redis.pcall('HGETALL', K)
if fields.err then
  return string.find(fields.err, 'WRONGTYPE', 1, true) and 0 or fields
end
local ours, mine, latest = false, nil, nil
for i = 1, #fields, 2 do
  local name, ends = fields[i], tonumber(fields[i + 1]) or -1
  if name == 'hf1' then
    ours = true
  elseif name == field then
    mine = live(ends)
  elseif string.sub(name, 1, 1) == 'h' and live(ends) and latest ~= 0 then
    latest = ends == 0 and 0 or math.max(latest or 0, ends)
  end
end
if not (ours and mine) then return 0 end
if not latest then
  redis.call('DEL', K)
else
  redis.call('HDEL', K, field)
  if latest > 0 then redis.pcall('PEXPIREAT', K, latest) end
end
return 1
