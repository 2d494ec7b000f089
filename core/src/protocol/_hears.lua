-- Does a client hear what it is told about its member m? Needs K. Asked before PUBLISH, whose count does not
-- say who can still receive the message.
local client, sharded = sub(m, 33, 64), sub(m, 65, 65) == 's'
local channel = sharded and 'hf:{' .. (string.match(K, '^[^{]*{([^}]+)}') or K) .. '}:' .. client or 'hf:' .. client
local heard = (pcall('PUBSUB', sharded and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] or 0) > 0
