-- wait: join the queue of a K in the form one. It need not read F or D: in that form F is flagged,
-- its holder's release looks at the queue, and while an id may be dead K has a 2.
--
-- KEYS  K, Q
-- ARGV  member (mode x), owner
-- Answers  server µs (16 digits), 1, and the holder's fence (16), mode (1) and lease (12); or
--       integer 0: nothing done, send `acquire`
local call, sub = redis.call, string.sub
local v = redis.pcall('HGET', KEYS[1], 'hf1')
-- A request of the same owner nests.
if type(v) ~= 'string' or sub(v, 33, 33) ~= '1' or sub(v, 63) == ARGV[2] or #ARGV[1] < 89 then return 0 end
local time = call('TIME')
local us = time[2]
local stamp = time[1] .. (#us == 6 and us or sub('00000' .. us, -6))
local fence = sub(v, 34, 49)
-- It becomes the last in the queue, unless the clock has stepped back.
if #stamp ~= 16 or stamp <= fence then return 0 end
local added = call('ZADD', KEYS[2], 'NX', stamp, ARGV[1], 'inf', '~')
if added == 0 then return 0 end
-- Once a second is enough; but now if the queue had no TTL, because it had been lost.
if added == 2 or fence < time[1] then redis.pcall('PEXPIRE', KEYS[2], '30000') end
return stamp .. sub(v, 33, 62)
