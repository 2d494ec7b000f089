-- take: acquire a free K without a queue, an unclaimed grant or a dead id. It need not look for
-- these: each makes F longer than a fence, and SET returns F.
--
-- KEYS  K, F
-- ARGV  h and the hold id; owner; lease (ms, not 0); floor: the highest fence of K that the
--       client has seen (16 digits); and the life of a plain F (ms), if that is not a day
-- Answers  the fence, which is the server's time in µs too; or an integer, and nothing is
--       done: -1 K exists; 0 send `acquire`
local call, pcall, K = redis.call, redis.pcall, KEYS[1]
if call('EXISTS', K) == 1 then
  -- Its shared holds may have ended: then K lives a little longer.
  local v = pcall('HGET', K, 'hf1')
  return type(v) == 'string' and string.sub(v, 33, 33) == 'p' and 0 or -1
end
-- Check the lengths only: to read a number costs as much as a command. PEXPIRE refuses any other
-- text.
local h, owner, lease = ARGV[1], ARGV[2], ARGV[3]
local digits = #lease
if #h ~= 33 or #owner < 1 or #owner > 4096 or digits < 2 or lease < '1'
  or digits > 11 and (digits > 12 or lease > '315360000000') then
  return 0
end
local time = call('TIME')
local fence = time[1] .. time[2]
if #fence ~= 16 then fence = time[1] .. string.sub('00000' .. time[2], -6) end
if fence <= ARGV[4] then return 0 end
call('HSET', K, h .. fence, owner)
local done = pcall('PEXPIRE', K, lease)
local old = done == 1 and pcall('SET', KEYS[2], fence, 'GET', 'PX', ARGV[5] or '86400000')
if done == 1 and (not old or (#old == 16 and old < fence)) then return fence end

-- F is not plain, or has a limit, or is ahead of the clock, or the user lacks a permission: restore
-- all.
if pcall('DEL', K) ~= 1 then pcall('HDEL', K, h .. fence) end
if done ~= 1 then return done end
if old.err then return string.find(old.err, 'WRONGTYPE', 1, true) and 0 or old end
local ends = tonumber(string.sub(old, 1, 16)) or 0
pcall('SET', KEYS[2], old, 'PXAT',
  string.format('%.0f', math.floor(math.max(ends, tonumber(fence)) / 1000)
    + (#old == 16 and ARGV[5] or 86400000)))
return 0
