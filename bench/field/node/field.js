// node-redlock, for ../run.py and ../quorum.py, which have the protocol that all these programs speak.
//
//     field.js NAME HOST PORT[,PORT…] PAGE
//
// Several ports are independent masters.
'use strict'

const fs = require('node:fs')
const readline = require('node:readline')
const Redis = require('ioredis')
const { default: Redlock } = require('redlock')

const LEASE = 10_000
const [name, host, ports, path] = process.argv.slice(2)
const page = fs.openSync(path, 'r+')
const servers = ports.split(',').map((port) => new Redis({ host, port: Number(port) }))
// Tries again without a limit, after the default of 200 ms and up to 100 more.
const redlock = new Redlock(servers, { retryCount: -1 })

const now = () => process.hrtime.bigint() // of CLOCK_MONOTONIC
const sleep = (ns) => new Promise((done) => setTimeout(done, Math.max(0, Number(ns) / 1e6)))
const acquire = (key) => redlock.acquire([key], LEASE)

const [INSIDE, TURNS, LAST, CHANGES, VIOLATIONS] = [0, 1, 2, 3, 4]
const cell = Buffer.alloc(8)
function get (at) {
  fs.readSync(page, cell, 0, 8, 8 * at)
  return cell.readBigInt64LE()
}
function set (at, value) {
  cell.writeBigInt64LE(value)
  fs.writeSync(page, cell, 0, 8, 8 * at)
}

// Does the work of a holder: nothing, but it notices company.
function takeTurn (me) {
  if (get(INSIDE) !== 0n) set(VIOLATIONS, get(VIOLATIONS) + 1n)
  set(INSIDE, me)
  const turns = get(TURNS)
  if (get(LAST) !== me) {
    set(LAST, me)
    set(CHANGES, get(CHANGES) + 1n)
  }
  set(TURNS, turns + 1n)
  if (get(INSIDE) !== me) set(VIOLATIONS, get(VIOLATIONS) + 1n)
  set(INSIDE, 0n)
}

async function waitInCrowd (me, begin, end) {
  const found = { turns: 0, longest: 0 }
  await sleep(begin - now())
  for (let at = begin; at < end;) {
    const since = now()
    const lock = await acquire(`${name}:crowd`)
    at = now()
    found.longest = Math.max(found.longest, Number((at < end ? at : end) - since))
    if (at < end) {
      takeTurn(me)
      found.turns++
    }
    await lock.release()
  }
  return found
}

let handoff
const tasks = {
  async pairs (count) {
    const since = now()
    for (let i = 0n; i < count; i++) await (await acquire(`${name}:pairs:${process.pid}`)).release()
    return { ns: Number((now() - since) / count) }
  },
  async take () {
    handoff = await acquire(`${name}:handoff`)
    return { at: Number(now()) }
  },
  async give () {
    const at = now()
    await handoff.release()
    return { at: Number(at) }
  },
  async crowd (count, first, begin, end) {
    const crowd = []
    for (let i = 0n; i < count; i++) crowd.push(waitInCrowd(first + i + 1n, begin, end))
    const found = await Promise.all(crowd)
    return { turns: found.map((each) => each.turns), longest: found.map((each) => each.longest) }
  }
}

async function main () {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, ...numbers] = line.split(' ')
    console.log(JSON.stringify(await tasks[what](...numbers.map(BigInt))))
  }
  process.exit(0)
}

main()
