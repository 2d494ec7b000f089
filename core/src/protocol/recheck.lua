-- recheck: ask for several hold ids of one client that wait for K.
--
-- KEYS  K, last fence, queue, then the dead-id key of each hold id
-- ARGV  floor, as for acquire; wait: 1 to join the queue; then for each hold id:
--       hold id, owner, lease, reentrant, member, score, as for acquire
-- Answers  server µs; K's TTL in ms (-1: no TTL; -2: free, and more of the queue to
--       skip; 0: free); then for each hold id three numbers:
--         1 held: fence, remaining ms (-1: never)
--         0 busy: 0, 0
--         2 queued, 4 queued behind a foreign lock: score, rank
--         3 dead (released, cancelled, or its lease ran out): 0, 0
--
-- Without a hold id it only grants a free lock to the next waiter.
local K, F, Q = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call
local floor, wait = tonumber(ARGV[1]), ARGV[2] == '1'
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = (now - now % 1000) / 1000
local stored = call('GET', F)
local dead = #KEYS > 3 and call('MGET', unpack(KEYS, 4)) or {}
local asks = {}
for i = 1, #KEYS - 3 do
  local at = 6 * i - 3
  asks[i] = {
    id = ARGV[at], owner = ARGV[at + 1], lease = tonumber(ARGV[at + 2]), nests = ARGV[at + 3] == '1',
    member = ARGV[at + 4], score = tonumber(ARGV[at + 5]), dead = dead[i],
  }
end
--@include _wait.lua
