-- The last fence; then, after a space, the channel of a pushed grant that is not claimed
-- yet.
local LIMIT = 9007199254740992 -- 2^53: the last fence that a double can hold
local last, mark = string.match(stored or '0', '^(%d+) ?(.*)$')
last = tonumber(last) or 0
if mark == '' then mark = nil end
-- No more fences: nothing can be granted, but a held lock can still be released.
local spent = math.max(last, now) >= LIMIT - 1

-- The fence's decimal digits. Mostly the fence is the time, whose digits the server gave.
local stamp = time[1] .. string.sub('00000' .. time[2], -6)
local function digits(fence)
  return fence == now and stamp or string.format('%.0f', fence)
end

-- Keep the fence until a day after the later of the clock and the fence. A fence ahead of
-- the clock gets an absolute expiry, so that it is not forgotten sooner. Answers the
-- server's reply, which may be an error.
local function remember(fence, channel)
  local value = digits(fence)
  if channel then value = value .. ' ' .. channel end
  if fence > now then
    return redis.pcall('SET', F, value, 'PXAT', math.floor(fence / 1000) + 86400000)
  end
  return redis.pcall('SET', F, value, 'PX', '86400000')
end
