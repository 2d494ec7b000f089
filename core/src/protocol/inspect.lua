-- inspect: say who holds the lock. Changes nothing.
--
-- KEYS  K, queue
-- ARGV  how many waiters to skip, and how many to list
-- Answers  0 free, 1 held, 2 foreign; owner; count; fence; TTL in ms (-1: no TTL);
--       members of the queue; server µs; then the members that were asked for, each with
--       its score
local K, Q = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)
--@include _live.lua
local waiters = redis.pcall('ZCARD', Q)
if type(waiters) == 'table' then waiters = 0 end
local fields = redis.pcall('HGETALL', K)
if fields.err and not string.find(fields.err, 'WRONGTYPE', 1, true) then return fields end
local owner, fence, count = nil, 0, 0
for i = 1, #fields, 2 do
  local name, value = fields[i], fields[i + 1]
  if name == 'hf1' then
    owner = value
  elseif name == 'f' then
    fence = tonumber(value) or 0
  elseif string.sub(name, 1, 1) == 'h' and live(tonumber(value) or -1) then
    count = count + 1
  end
end
local ttl = redis.call('PTTL', K)
local queued = {}
local first, most = tonumber(ARGV[1]), tonumber(ARGV[2])
if first and most and most > 0 then
  queued = redis.pcall('ZRANGE', Q, first, first + most - 1, 'WITHSCORES')
  if queued.err then queued = {} end
end
if owner then return { 1, owner, count, fence, ttl, waiters, now, queued } end
return { ttl == -2 and 0 or 2, '', 0, 0, ttl, waiters, now, queued }
