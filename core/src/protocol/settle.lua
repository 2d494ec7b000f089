-- settle: decide the outcome of a call, for a caller that has looked at its record.
--
-- KEYS  K, F, Q, S, R, and D: the dead-id key of this request, which shows that a copy has settled
--       the call, or was given up
-- ARGV  verb: d a result, e an error, r it may be made again, f forget it
--       the fence of the record that was looked at (16 digits); an id of this request
--       force (1: even while the call is in progress, whose hold then ends; and over a result)
--       ms and bytes of a result or an error; owner; note
--       and at the end the life of a plain F (ms), if that is not a day
-- Answers  0 no record with that fence; 1 done, also to a copy; 2 done, and more to hand on; 3 in
--       progress, and not forced; 4 it is done already
local K, F, Q, S, R, D = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local life = ARGV[9]
--@include _state.lua
--@include _grant.lua
--@include _once.lua
local verb, fence, id, force, ms, bytes, owner, note = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1', tonumber(ARGV[5]),
  ARGV[6] or '', ARGV[7] or '', ARGV[8] or ''
local stays = verb == 'd' or verb == 'e'
if not (stays or verb == 'r' or verb == 'f') or not ms or #note > 1024 or #id ~= 32 or #owner > 4096
  or (stays and not (ms >= 10000 and ms <= 315360000000 and ms % 1 == 0 and #bytes <= 16777216)) then
  return redis.error_reply('HOLDFAST settle out of bounds')
end
local err = wrong or read()
if err then return err end
local runs = kind == 'b' and held and held.x > 0 and held.fence == fence
local done, answer = call('GET', D), nil
if done and done ~= '1' then
  answer = tonumber(done) or 1
elseif not record or sub(record, 34, 49) ~= fence then
  answer = 0
elseif kind == 'r' and verb == 'r' then
  answer = 1
elseif runs and not force then
  answer = 3
elseif (verb == 'r' and kind ~= 'b') or (stays and not force and (kind == 'd' or kind == 'e')) then
  answer = 4
end
if done or answer then
  refused('ZREM', Q, '') -- is this still the master?
  if done == '1' then return demoted or redis.error_reply('HOLDFAST settle given up') end
  refused('SET', D, answer == 1 and verb or answer, 'PX', '600000')
  return demoted or answer
end
-- A removal goes first: after it a full server allows the rest.
err = refused('ZREM', Q, '') or refused('SET', D, verb, 'PX', '600000')
if err then return demoted or err end
if runs then
  if held.form == 'many' then err = delete(K, S) else err = delete(K) end
  if not err then held, mark = nil, NOBODY end
end
if err then
elseif verb == 'f' then
  err = refused('DEL', R)
elseif verb == 'r' then
  err = rewrite(sub(record, 1, 32), 'r', nil, note, '', 86400000)
else
  err = rewrite(id, verb, owner, note, bytes, ms)
end
if err then
  refused('DEL', D)
  if held or not runs then return demoted or err end
elseif stays then
  tell_all()
end
local _, more = grant({})
settle()
return demoted or err or more and 2 or 1
