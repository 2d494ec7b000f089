-- Is this hold's own expiry (server ms; 0: never) in the future?
local function live(ends)
  return ends == 0 or ends > now_ms
end

-- The time left until then, in ms; -1: without end.
local function remaining(ends)
  return ends == 0 and -1 or ends - now_ms
end
