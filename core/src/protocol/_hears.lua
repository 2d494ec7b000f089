-- Find out whether the client of member m receives messages. Needs K. Done before PUBLISH, whose
-- count does not show who can still receive the message.
local client, sharded = sub(m, 33, 64), sub(m, 65, 65) == 's'
local channel = sharded and 'hf:{' .. (string.match(K, '^[^{]*{([^}]+)}') or K) .. '}:' .. client or 'hf:' .. client
local heard = (pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] or 0) > 0
