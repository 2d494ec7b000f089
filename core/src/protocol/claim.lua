-- claim: give a pushed grant its full lease, and remove its mark.
--
-- KEYS  K, F; and S, of a hold that may be one of many
-- ARGV  client (32); hold id and fence (48), or the id alone; lease in ms (0: never); write (1):
--       write in any case, so that WAIT has something to count; and the life of a plain F (ms), if
--       that is not a day
-- Answers  server µs; ms left, -1: never, -2: not held, -3: the server refused, -4: nothing done, S
--       is needed
local K, F, S = KEYS[1], KEYS[2], KEYS[3]
local client, lease = ARGV[1], tonumber(ARGV[3])
if not (lease and (lease == 0 or (lease >= 10 and lease <= 315360000000 and lease % 1 == 0))) then
  return redis.error_reply('HOLDFAST lease out of bounds')
end
local life = ARGV[5]
--@include _state.lua
local err = look()
if err then return err end
if held and held.form == 'many' and not S then return { now, -4 } end
local id, granted = sub(ARGV[2], 1, 32), sub(ARGV[2], 33)
-- With another fence it was granted again, to a late copy of its acquire, after others held the
-- lock.
local at, ends, fence, _, _, whose = find_hold(id, granted)
if not ends or at ~= id then
  refused('HDEL', K, '') -- is this still the master?
  return demoted or { now, ends and left(ends) or -2 }
end
ends, err = extend(id, ends, lease, false)
if not err and held.form == 'many' and whose ~= NOBODY then
  local v = call('HGET', K, 'h' .. id)
  err = refused('HSET', K, 'h' .. id, sub(v, 1, 17) .. NOBODY .. sub(v, 50))
end
if not err and (mark == client or ARGV[4] == '1') then
  -- F stays flagged: K has, or may have, the form for a queue.
  if mark == client then mark = NOBODY end
  err = remember(fence > last and fence or last, mark, flagged or held.form == 'one')
end
if demoted then return demoted end
return { now, err and -3 or left(ends) }
