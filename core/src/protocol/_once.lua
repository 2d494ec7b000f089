-- The record R of a call that is made once: its state, and every way to change it. Needs
-- _state.lua, and local R.
--
-- hf1 = <id 32><kind 1><fence 16><since 16><size 8><terms 65><owner>; n = a note; b = the bytes, or
-- for kind b the ms for which an unknown outcome is kept. Kinds: b begun, r may be made again, d
-- done, e a kept error.

local record, wrong = pcall('HGET', R, 'hf1'), nil -- of another type: the server's error
if type(record) == 'table' then record, wrong = nil, record end
local kind = record and sub(record, 33, 33)
-- Return whether the hold with that id and fence wrote it.
local function written_by(id, fence)
  return record and sub(record, 1, 32) == id and sub(record, 34, 49) == fence
end

-- Replace the record; ms: 0 never ends. All or nothing; returns the server's error.
local function write(id, which, fence, terms, owner, note, bytes, ms)
  local old, oldnote, oldbytes = record, nil, nil
  if old then oldnote, oldbytes = call('HGET', R, 'n'), call('HGET', R, 'b') end
  local new = id .. which .. fence .. stamp .. fmt('%08d', which == 'b' and 0 or #bytes) .. terms .. owner
  local err = refused('HSET', R, 'hf1', new, 'n', note, 'b', bytes)
  if err then return err end
  if ms == 0 then err = refused('PERSIST', R) else err = refused('PEXPIRE', R, fmt('%.0f', ms)) end
  if err then
    if not old then
      refused('DEL', R)
    else
      refused('HSET', R, 'hf1', old, 'n', oldnote or '', 'b', oldbytes or '')
    end
    return err
  end
  record, kind = new, which
end
-- Replace the record of the same hold, or as a caller settles it, by another kind.
local function rewrite(id, which, owner, note, bytes, ms)
  return write(id, which, sub(record, 34, 49), sub(record, 74, 138), owner or sub(record, 139), note, bytes, ms)
end
-- Notify the waiters for the outcome among the first 100. Needs _grant.lua.
local function tell_all()
  if queued == false then return end
  for _, m in ipairs(pcall('ZRANGE', Q, 0, 99)) do
    local a = sub(m, 76, 76) == 'o' and parse(m)
    if a then tell(a) end
  end
end
