-- permissions: find the permissions that the user lacks, for an error that does not name them.
--
-- KEYS  K. If the user may not use K, the server refuses this script too, which is the answer.
-- ARGV  the other keys of the refused request
-- Answers  the missing rules, as ACL SETUSER takes them; empty: no rule is missing, or
--       the server is older than 7.0 and cannot be asked
local missing = {}
local function allowed(...)
  local known, may = pcall(redis.acl_check_cmd, ...)
  return not known or may
end
if not redis.acl_check_cmd then return '' end

local K = KEYS[1]
for _, key in ipairs(ARGV) do
  if not (allowed('EXISTS', key) or allowed('DEL', key) or allowed('SET', key, '1')) then
    -- A hold id must stay secret.
    key = string.gsub(string.gsub(key, '%x+:hf1:d$', '*:hf1:d'), '[^%w%p]', '?')
    missing[#missing + 1] = '~' .. string.sub(key, 1, 80)
  end
end
for _, command in ipairs({
  { 'EXISTS', K }, { 'DEL', K }, { 'GET', K }, { 'SET', K, '1' }, { 'HSET', K, 'f', '1' }, { 'HGET', K, 'f' },
  { 'HGETALL', K }, { 'HLEN', K }, { 'HDEL', K, 'f' }, { 'PEXPIRE', K, '1' }, { 'PEXPIREAT', K, '1' },
  { 'PERSIST', K }, { 'PTTL', K }, { 'ZADD', K, '1', 'm' }, { 'ZREM', K, 'm' }, { 'ZCARD', K },
  { 'ZCOUNT', K, '0', '1' }, { 'ZRANGE', K, '0', '1' }, { 'ZRANGEBYSCORE', K, '0', '1' },
  { 'ZREVRANGEBYSCORE', K, '1', '0' }, { 'ZRANK', K, 'm' }, { 'ZREVRANK', K, 'm' }, { 'ZSCORE', K, 'm' },
  { 'ZPOPMIN', K }, { 'TIME' },
}) do
  if not allowed(unpack(command)) then missing[#missing + 1] = '+' .. string.lower(command[1]) end
end
return table.concat(missing, ' ')
