-- limit: store how many permits K has, and for how long each pass of a gate counts; or no limit. It
-- ends no hold, and hands nothing on: an `acquire` without an id notifies the waiters that give
-- another number.
--
-- KEYS  K, F, and D: the dead-id key of this request, which shows that a copy was carried out, or
--       given up
-- ARGV  permits (0: no limit); ms of each pass (0: it is no gate); and the life of a plain F (ms),
--       if that is not a day
-- Answers  permits and ms that were stored before, or 0, 0; to a later copy the same
local K, F, D, S = KEYS[1], KEYS[2], KEYS[3], nil
local life = ARGV[3]
--@include _state.lua
local permits, per = tonumber(ARGV[1]), tonumber(ARGV[2])
if not (permits and permits >= 0 and permits <= 9999999999 and permits % 1 == 0)
  or not (per == 0 or (permits > 0 and per and per >= 10 and per <= 315360000000 and per % 1 == 0)) then
  return redis.error_reply('HOLDFAST limit out of bounds')
end
local err = look()
if err then return err end
local was, done = limit or '0000000000000000000000', call('GET', D)
if done then
  if #done ~= 22 then return redis.error_reply('HOLDFAST limit given up') end
  was = done
end
-- Written for a copy too: it shows whether this is still the master, and WAIT has something to
-- count.
err = refused('SET', D, was, 'PX', '600000')
if err then return err end
if not done then
  if permits == 0 then
    limit = nil
    err = remember(last, mark, flagged)
  else
    limit = fmt('%010.0f%012.0f', permits, per)
    -- K first: while it has a 1, the short `release` would overwrite F.
    err = mend_one() or was == '0000000000000000000000' and refused('DEL', F) or remember(last, mark, flagged)
  end
  if err then refused('DEL', D) end
end
return demoted or err or { tonumber(sub(was, 1, 10)), tonumber(sub(was, 11)) }
