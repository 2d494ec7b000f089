-- break: end the hold with that fence, and all holds that nest in it, and hand the lock on. Other
-- shared holds stay.
--
-- KEYS  K, F, Q, S, R
-- ARGV  the victim's fence; foreign (1: delete a foreign lock); and the life of a plain F (ms),
--       if that is not a day
-- Answers  0 another owner has it, nothing done; 1 done, or free; 2 done, and more to hand on
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local life = ARGV[3]
--@include _state.lua
--@include _grant.lua
local victim = tonumber(ARGV[1])
local err = read()
if err then return err end
if foreign then
  if ARGV[2] ~= '1' or victim ~= 0 then return 0 end
  err = delete(K)
  foreign = false
elseif held and held.x == 0 and held.form == 'many' then
  local found = false
  for _, id in ipairs(call('ZRANGE', S, '0', '-1')) do
    local ends, fence, mode, _, client, weight = hold(id)
    if ends and tonumber(fence) == victim then
      found = true
      if client == mark then mark = NOBODY end
      err = drop(id, ends, mode, weight)
      if err then break end
    end
  end
  if not found then return 0 end
elseif held then
  if tonumber(held.fence) ~= victim then return 0 end
  mark = NOBODY
  if held.form == 'many' then err = delete(K, S) else err = delete(K) end
  if not err then held = nil end
end
if err then return err end
local _, more = grant({})
settle()
return demoted or more and 2 or 1
