-- selftest: find out whether this user can count listeners here, and publish to them.
--
-- KEYS  K, a lock for which the client waits: not read. A service may refuse a script
--       without a key, and a proxy does not know where to send it.
-- ARGV  the client's own channel
-- Answers  how many listen on it; publishes `t` there. Any error: the user cannot.
local channel = ARGV[1]
local shard = string.sub(channel, 1, 4) == 'hf:{'
local count = redis.call('PUBSUB', shard and 'SHARDNUMSUB' or 'NUMSUB', channel)
redis.call(shard and 'SPUBLISH' or 'PUBLISH', channel, 't')
return tonumber(count[2]) or 0
