-- break: take the lock from its holder, and hand it on.
--
-- KEYS  K, F, Q, S, R
-- ARGV  the victim's fence; its hold id if its hold is shared, or empty: the exclusive holds
--       of that fence, and all that nests in them; foreign (1: delete a foreign lock);
--       and the life of a plain F (ms), if that is not a day
-- Answers  0 held by another, nothing done; 1 done, or it was free; 2 done, and more to hand on
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local life = ARGV[4]
--@include _state.lua
--@include _grant.lua
local victim = tonumber(ARGV[1])
local err = read()
if err then return err end
if foreign then
  if ARGV[3] ~= '1' then return 0 end
  err = delete(K)
  foreign = false
elseif held and ARGV[2] ~= '' then
  local ends, fence, mode, _, client = hold(ARGV[2])
  if not ends or tonumber(fence) ~= victim then return 0 end
  if client == mark then mark = NOBODY end
  err = drop(ARGV[2], ends, mode)
elseif held then
  if held.x == 0 or tonumber(held.fence) ~= victim then return 0 end
  mark = NOBODY
  if held.form == 'many' then err = delete(K, S) else err = delete(K) end
  if not err then held = nil end
end
if err then return err end
local _, more = grant({})
settle()
return demoted or more and 2 or 1
