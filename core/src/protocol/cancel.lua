-- cancel: leave the queue; if the lock is granted already, answer with the grant.
--
-- KEYS  K, F, Q, S, R, dead-id key of the hold id
-- ARGV  hold id; bury (0, 1) as for release; queue member; and the life of a plain F (ms), if that
--       is not a day
-- Answers  as acquire for one hold id: held; or busy, followed by the owner of the exclusive hold,
--       or of the shared hold that ends first, and 1 if that hold is kept
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
-- The waiters behind it may fit.
local _, more = grant({})
settle()
if demoted then return demoted end
local again = more and -2 or held and held.form == 'many' and left(ms(call('ZRANGE', S, '0', '0', 'WITHSCORES')[2]))
  or (held or foreign) and call('PTTL', K) or 0
if ends then return { now, again, 1, tonumber(fence), left(ends) } end
local id, owner = held and held.id or '', held and held.owner or ''
if held and held.form == 'many' then
  id = call('ZRANGE', S, '0', '0')[1] or ''
  local _, _, _, first = hold(id)
  if owner == '' then owner = first or '' end
end
return { now, again, 0, 0, 0, owner, sub(id, 1, 16) == '0000000000000000' and 1 or 0 }
