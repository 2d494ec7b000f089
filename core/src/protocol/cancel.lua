-- cancel: leave the queue; if the lock is granted already, answer with the grant.
--
-- KEYS  K, F, Q, S, R, dead-id key of the hold id
-- ARGV  hold id; bury (0, 1) as for release; queue member; and the life of a plain F (ms), if that
--       is not a day
-- Answers  as acquire for one hold id: held; or busy, followed by the owner of the exclusive hold,
--       or of the shared hold that ends first, and 1 if that hold is kept. Names a hold from before
--       the cancel, if there was one
local K, F, Q, S, R = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local life = ARGV[4]
--@include _state.lua
--@include _grant.lua
local err = read() or refused('ZREM', Q, ARGV[3])
if err then return err end
local ends, fence = hold(ARGV[1])
if ARGV[2] == '1' then -- a hold too may outlive its client, and end before the copy comes
  err = bury(KEYS[6])
  if err then return err end
end
-- Return the id and the owner of the exclusive hold, or of the shared hold that ends first, and the
-- time left of that shared hold or of K.
local function holder()
  if not held or held.form ~= 'many' then
    return held and held.id or '', held and held.owner or '', (held or foreign) and call('PTTL', K) or 0
  end
  local first, owner = call('ZRANGE', S, '0', '0', 'WITHSCORES'), held.owner
  if owner == '' then owner = select(4, hold(first[1])) or '' end
  return first[1], owner, left(ms(first[2]))
end
local id, owner, again = holder()
-- The waiters behind it may fit. They have waited too, and are named only if the lock was free.
local _, more = grant({})
settle()
if demoted then return demoted end
if owner == '' then id, owner, again = holder() end
if more then again = -2 end
if ends then return { now, again, 1, tonumber(fence), left(ends) } end
return { now, again, 0, 0, 0, owner, sub(id, 1, 16) == '0000000000000000' and 1 or 0 }
