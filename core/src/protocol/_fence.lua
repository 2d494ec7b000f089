-- The last fence, and behind it, after a space, the channel of a grant that
-- was pushed and is not claimed yet.
local LIMIT = 9007199254740992 -- 2^53: the last fence that a double can hold
local last, mark = string.match(stored or '0', '^(%d+) ?(.*)$')
last = tonumber(last) or 0
if mark == '' then mark = nil end
-- Nothing can be granted any more; what is held can still be given back.
local spent = math.max(last, now) >= LIMIT - 1

-- Its decimal digits. Mostly it is the time, whose digits the server gave.
local stamp = time[1] .. string.sub('00000' .. time[2], -6)
local function digits(fence)
  return fence == now and stamp or string.format('%.0f', fence)
end

-- Keep it for a day after the later of the clock and itself, as an absolute
-- time: a clock that runs ahead must not make it forgotten sooner. Answers what
-- the server said, which may be an error.
local function remember(fence, channel)
  local value = digits(fence)
  if channel then value = value .. ' ' .. channel end
  if fence > now then
    return redis.pcall('SET', F, value, 'PXAT', math.floor(fence / 1000) + 86400000)
  end
  return redis.pcall('SET', F, value, 'PX', '86400000')
end
