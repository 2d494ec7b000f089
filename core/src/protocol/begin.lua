-- begin: before its call, a holder writes into the record that the call has begun. From then on no
-- caller makes the call again by itself: if the hold ends without a report, the outcome is unknown.
--
-- KEYS  K, S, R
-- ARGV  hold id, fence (16 digits); terms (65): `m` at most once, and the fingerprint of the
--       arguments; ms for which an unknown outcome is kept, from the first report to a caller (0:
--       until it is settled); note
-- Answers  as acquire for one hold id: 1 begun, also to a copy; 0 not held; 5 there is another
--       caller's record
local K, S, R = KEYS[1], KEYS[2], KEYS[3]
local F
--@include _state.lua
--@include _once.lua
local id, fence, terms, ms, note = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] or ''
if not (ms and (ms == 0 or (ms >= 10000 and ms <= 315360000000 and ms % 1 == 0))) or #terms ~= 65
  or #note > 1024 then
  return redis.error_reply('HOLDFAST begin out of bounds')
end
local err = wrong or look()
if err then return err end
local ends, granted, mode, owner = hold(id)
if not ends or granted ~= fence or mode ~= 'x' then
  refused('HDEL', K, '') -- is this still the master?
  return demoted or { now, 0, 0, 0, 0 }
end
local own = kind == 'b' and written_by(id, fence)
local theirs = record and sub(record, 74, 138)
if record and not own
  and not (kind == 'r' and (theirs == terms or find(theirs, '%-', 2) or find(terms, '%-', 2))) then
  return { now, 0, 5, { record, call('HGET', R, 'n') or '', call('HGET', R, 'b') or '' }, call('PTTL', R) }
end
-- Written for a copy too, so that WAIT has something to count.
err = write(id, 'b', fence, terms, owner, note, ms > 0 and ARGV[4] or '', 0)
if err then return demoted or err end
return { now, 0, 1, tonumber(fence), left(ends) }
