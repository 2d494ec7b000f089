-- Is this hold's own expiry (server ms; 0: never) still ahead?
local function live(ends)
  return ends == 0 or ends > now_ms
end

-- What is left of it, in ms; -1: without end.
local function remaining(ends)
  return ends == 0 and -1 or ends - now_ms
end
