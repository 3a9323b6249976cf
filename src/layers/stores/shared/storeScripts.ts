/**
 * The store's operations as scripts that Redis runs in one step. Amounts are whole numbers in hashes (exact beyond 2^53 in
 * Redis itself, exact below it here); instants are those of the server.
 *
 * Keys of an account: `P:a:NAME` what is spent and reserved, `P:l:NAME` its leases by their end, `P:h:NAME` what each lease holds.
 */
import * as Redis from "effect/persistence/Redis"
import type { Account } from "../../../domain/budget/Account.ts"
import type { Reserve, Settle, Swap } from "../../../services/SharedStore.ts"

const shared = `
local P = KEYS[1]
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local units = {'requests', 'tokens', 'nano'}
local function whole(n) return n == 0 and '0' or string.format('%.0f', n) end
local function split(text)
  local parts = {}
  for part in string.gmatch(text, '[^,]+') do parts[#parts + 1] = tonumber(part) end
  return parts
end
local function add(name, prefix, counts, sign)
  for i = 1, 3 do redis.call('HINCRBY', P .. ':a:' .. name, prefix .. units[i], whole(sign * counts[i])) end
end
local function drop(name, id)
  local held = redis.call('HGET', P .. ':h:' .. name, id)
  redis.call('ZREM', P .. ':l:' .. name, id)
  if held then
    redis.call('HDEL', P .. ':h:' .. name, id)
    add(name, 'reserved_', split(held), -1)
  end
end
local function sweep(name)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':l:' .. name, '-inf', now)) do drop(name, id) end
end
local function standing(name)
  local fields = {}
  for _, prefix in ipairs({'spent_', 'reserved_'}) do
    for i = 1, 3 do fields[#fields + 1] = prefix .. units[i] end
  end
  local result = redis.call('HMGET', P .. ':a:' .. name, unpack(fields))
  for i = 1, 6 do result[i] = tonumber(result[i] or '0') or 0 end
  return result
end
local function say(standings)
  local out = {}
  for _, one in ipairs(standings) do
    for i = 1, 6 do out[#out + 1] = whole(one[i]) end
  end
  return out
end
local function keep(name, untilMillis)
  if untilMillis == '' then return end
  for _, kind in ipairs({':a:', ':l:', ':h:'}) do redis.call('PEXPIREAT', P .. kind .. name, untilMillis) end
end
local function hold(name, id, worst, lease, untilMillis)
  if redis.call('HSETNX', P .. ':h:' .. name, id, worst) == 1 then add(name, 'reserved_', split(worst), 1) end
  redis.call('ZADD', P .. ':l:' .. name, whole(now + tonumber(lease)), id)
  keep(name, untilMillis)
end
`

const countsText = ({ requests, tokens, nanoUsd }: Reserve["worst"]): string => `${requests},${tokens},${nanoUsd}`

const limitText = (limit: number | null): string => (limit === null ? "-1" : String(limit))

const accountParams = ({ name, limits, untilMillis }: Account): ReadonlyArray<string> => [
  name,
  [limits.requests, limits.tokens, limits.nanoUsd].map(limitText).join(","),
  untilMillis === null ? "" : String(untilMillis)
]

/** Answers 1 or 0, then six numbers for each account. ARGV: id, worst, lease, then name, limits and end of each account. */
export const reserve = Redis.script(
  (prefix: string, { id, worst, leaseMillis, accounts }: Reserve) => [
    prefix,
    id,
    countsText(worst),
    String(leaseMillis),
    ...accounts.flatMap(accountParams)
  ],
  {
    numberOfKeys: 1,
    lua: `${shared}
local id, worst = ARGV[1], split(ARGV[2])
local fits = redis.call('EXISTS', P .. ':d:' .. id) == 0
local standings = {}
for at = 4, #ARGV, 3 do
  sweep(ARGV[at])
  local one, limits = standing(ARGV[at]), split(ARGV[at + 1])
  for i = 1, 3 do
    local used = one[i] + one[3 + i]
    if limits[i] >= 0 and (used >= limits[i] or used + worst[i] > limits[i]) then fits = false end
  end
  standings[#standings + 1] = one
end
if fits then
  for index, one in ipairs(standings) do
    local at = 1 + 3 * index
    hold(ARGV[at], id, ARGV[2], ARGV[3], ARGV[at + 2])
    for i = 1, 3 do one[3 + i] = one[3 + i] + worst[i] end
  end
end
local out = say(standings)
table.insert(out, 1, fits and '1' or '0')
return out`
  }
).withReturnType<ReadonlyArray<string>>()

/** Answers six numbers for each account. ARGV: id, spent, how long it is remembered, then the accounts. */
export const settle = Redis.script(
  (prefix: string, { id, spent, rememberMillis, accounts }: Settle) => [
    prefix,
    id,
    countsText(spent),
    String(rememberMillis),
    ...accounts.flatMap(accountParams)
  ],
  {
    numberOfKeys: 1,
    lua: `${shared}
local id, spent = ARGV[1], split(ARGV[2])
local first = redis.call('SET', P .. ':d:' .. id, '1', 'NX', 'PX', ARGV[3])
local standings = {}
for at = 4, #ARGV, 3 do
  local name = ARGV[at]
  drop(name, id)
  if first then
    add(name, 'spent_', spent, 1)
    keep(name, ARGV[at + 2])
  end
  sweep(name)
  standings[#standings + 1] = standing(name)
end
return say(standings)`
  }
).withReturnType<ReadonlyArray<string>>()

/** ARGV: for each reservation its id, worst, lease and number of accounts, then the accounts. */
export const renew = Redis.script(
  (prefix: string, reserves: ReadonlyArray<Reserve>) => [
    prefix,
    ...reserves.flatMap(({ id, worst, leaseMillis, accounts }) => [
      id,
      countsText(worst),
      String(leaseMillis),
      String(accounts.length),
      ...accounts.flatMap(accountParams)
    ])
  ],
  {
    numberOfKeys: 1,
    lua: `${shared}
local at = 1
while at <= #ARGV do
  local id, worst, lease, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 4
  local live = redis.call('EXISTS', P .. ':d:' .. id) == 0
  for _ = 1, count do
    if live then hold(ARGV[at], id, worst, lease, ARGV[at + 2]) end
    at = at + 3
  end
end
return 1`
  }
)

/** Answers six numbers for each account named. */
export const standings = Redis.script(
  (prefix: string, accounts: ReadonlyArray<Account>) => [prefix, ...accounts.map(({ name }) => name)],
  {
    numberOfKeys: 1,
    lua: `${shared}
local all = {}
for _, name in ipairs(ARGV) do
  sweep(name)
  all[#all + 1] = standing(name)
end
return say(all)`
  }
).withReturnType<ReadonlyArray<string>>()

/**
 * Answers 1 or 0 and the server's instant, then key, version and value of what differs. ARGV: how long a value is kept, how
 * many keys are known, those with their versions, then what is written.
 */
export const swap = Redis.script(
  (prefix: string, { known, writes, keepMillis }: Swap) => [
    prefix,
    String(keepMillis),
    String(known.length),
    ...known.flatMap(({ key, version }) => [key, String(version)]),
    ...writes.flatMap(({ key, value }) => [key, value])
  ],
  {
    numberOfKeys: 1,
    lua: `${shared}
local count, differing = tonumber(ARGV[2]), {}
for at = 3, 2 + 2 * count, 2 do
  local stands = redis.call('HMGET', P .. ':k:' .. ARGV[at], 'version', 'value')
  if (stands[1] or '0') ~= ARGV[at + 1] then
    for _, one in ipairs({ARGV[at], stands[1] or '0', stands[2] or ''}) do differing[#differing + 1] = one end
  end
end
local done = #differing == 0
if done then
  for at = 3 + 2 * count, #ARGV, 2 do
    local key = P .. ':k:' .. ARGV[at]
    redis.call('HINCRBY', key, 'version', 1)
    redis.call('HSET', key, 'value', ARGV[at + 1])
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
local out = {done and '1' or '0', whole(now)}
for _, one in ipairs(differing) do out[#out + 1] = one end
return out`
  }
).withReturnType<ReadonlyArray<string>>()
