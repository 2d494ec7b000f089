-- renew: renew or check many holds in one call. A bad key does not fail the rest.
--
-- KEYS  the locks
-- ARGV  for each: hold id, lease in ms (0: never), mode (see _renew.lua)
-- Answers  server µs, then for each the remaining ms, -1: never, -2: not held,
--       -3: the server refused
local replies = {}
for i = 1, #KEYS do
  local lease = tonumber(ARGV[3 * i - 1])
  if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
    return redis.error_reply('HOLDFAST lease out of bounds')
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
--@include _live.lua
--@include _renew.lua
replies[1] = now
for i = 1, #KEYS do
  local left = renew(KEYS[i], ARGV[3 * i - 2], tonumber(ARGV[3 * i - 1]), ARGV[3 * i])
  if type(left) == 'table' then return left end
  replies[1 + i] = left
end
return replies
