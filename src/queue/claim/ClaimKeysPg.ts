import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import type { Claim, Claiming } from "./Claiming.js"
import type { Scans } from "./ClaimLinePg.js"
import { KeyScan } from "./KeyScan.js"
import type { ScanPositions, Start } from "./ScanPositions.js"
import type { ScanSql } from "./ScanSql.js"
import { startValues, type Takes } from "./TakePg.js"

// Chooses which keys to try. If few jobs are due, the front of the queue shows all of their keys. If many are due, they
// may all belong to one key, so keys are read from the key index, after the last one served, and jobs without a key,
// which no index covers, are found by scanning the queue one range per claim. Each key tried costs a lookup of its
// jobs, and most keys are busy when there are more slots than keys, so the number of keys tried is bounded.

const windowOf = (limit: number) => Math.min(1_000, limit + 100)
const keysToTry = (limit: number) => Math.min(2_000, Math.ceil(1.25 * limit) + 20)

/** Jobs scanned per claim when many are due. */
const longest = 1_000

/** How many batches of keys to try while all of them are busy. */
const rounds = 4

interface FrontRow {
  readonly id: JobId
  readonly key: string | null
  readonly priority: number
  readonly run_at: number
}

interface Tries {
  readonly keys: ReadonlyArray<string>
  readonly keyless: ReadonlyArray<JobId>
  /** Whether these are all the due jobs. */
  readonly isAll: boolean
}

const scanStart = ({ id, priority, run_at }: FrontRow): Start => ({ priority, runAt: run_at, id })

/** The first row of each priority: earlier entries are taken. */
const firstsOf = (rows: ReadonlyArray<FrontRow>): ReadonlyMap<number, Start> =>
  new Map(rows.toReversed().map((row) => [row.priority, scanStart(row)]))

/** Claims by key, round-robin, with a limit per key. */
export const make = (database: typeof Database.Service, statements: ScanSql, scans: Scans, { byKey }: Takes): Claim => {
  const { sql } = database

  const stretch = (queue: string, from: ReadonlyArray<Start>, most: number, now: number) =>
    from.length === 0
      ? Effect.succeed<ReadonlyArray<FrontRow>>([])
      : mapErrors(sql.unsafe<FrontRow>(statements.front, [queue, now, most, ...startValues(from)]))

  /** Start positions for the rest of the scan: the rest of its priority, and the priorities after it. */
  const continueFrom = ({ from }: ScanPositions, walked: Start | undefined) =>
    walked === undefined ? from : [walked, ...from.filter(({ priority }) => priority > walked.priority)]

  /** The next keys in round-robin order, each at most once; fewer than `most` means these are all. */
  const keysAfter = (queue: string, last: string, most: number) =>
    Effect.gen(function* () {
      const after = (key: string, count: number) =>
        mapErrors(sql.unsafe<{ key: string }>(statements.keysAfter, [queue, key, count]))
      const behind = yield* after(last, most)
      const around = last === "" || behind.length === most ? [] : yield* after("", most - behind.length)
      return [...new Set([...behind, ...around].map(({ key }) => key))]
    })

  /** Few jobs are due: takes a bounded number of their keys, in round-robin order. */
  const fromShort = (front: ReadonlyArray<FrontRow>, keyScan: KeyScan, limit: number): Tries => {
    const keys = [...new Set(front.flatMap(({ key }) => key ?? []))]
    const lastPriority = front.at(-1)?.priority ?? 0
    const urgent = front.flatMap(({ key, priority }) => (priority < lastPriority ? (key ?? []) : []))
    const inTurn = keys.toSorted((a, b) => Number(a <= keyScan.last) - Number(b <= keyScan.last) || (a < b ? -1 : 1))
    const tried = new Set([...urgent, ...inTurn.slice(0, keysToTry(limit))])
    return { keys: [...tried], keyless: keylessOf(front), isAll: tried.size === keys.length }
  }

  const chooseTries = ({ limit, now, positions, queue }: Claiming, keyScan: KeyScan) =>
    Effect.gen(function* () {
      const most = windowOf(limit)
      const front = yield* stretch(queue, positions.from, most, now)
      positions.took(firstsOf(front), front.at(-1)?.priority, front.length >= most, now)
      if (front.length < most) {
        keyScan.walk(undefined, now)
        return fromShort(front, keyScan, limit)
      }
      const further = keyScan.isWalkDue(now)
        ? yield* stretch(queue, continueFrom(positions, keyScan.walked), longest, now)
        : []
      const lastSeen = further.at(-1)
      if (keyScan.isWalkDue(now))
        keyScan.walk(further.length < longest || !lastSeen ? undefined : scanStart(lastSeen), now)
      const lastPriority = front.at(-1)?.priority ?? 0
      const urgent = front.flatMap(({ key, priority }) => (priority < lastPriority ? (key ?? []) : []))
      const inTurn = yield* keysAfter(queue, keyScan.last, keysToTry(limit))
      const keyless = [...new Set([...keylessOf(front), ...keylessOf(further)])]
      if (keyless.length > 0) keyScan.isMixed = true
      const isAll = inTurn.length < keysToTry(limit) && !keyScan.isMixed
      return { keys: [...new Set([...urgent, ...inTurn])], keyless, isAll }
    })

  const keylessOf = (rows: ReadonlyArray<FrontRow>) => rows.flatMap(({ id, key }) => (key === null ? [id] : []))

  const claimOf = (tries: Tries, claiming: Claiming, keyScan: KeyScan) =>
    Effect.gen(function* () {
      if (tries.keys.length === 0 && tries.keyless.length === 0) return []
      const claimed = yield* byKey(claiming, [
        SqlArrays.ofTexts(tries.keys),
        keyScan.last,
        SqlArrays.ofPlain(tries.keyless.slice(0, claiming.limit))
      ])
      const jobs = claimed.map(({ job }) => job)
      keyScan.last = jobs.findLast(({ key }) => key !== undefined)?.key ?? keyScan.last
      return jobs
    })

  const claimReady = (claiming: Claiming, keyScan: KeyScan) =>
    Effect.gen(function* () {
      const keys = keyScan.takeReady(keysToTry(claiming.limit))
      const jobs = yield* claimOf({ keys, keyless: [], isAll: true }, claiming, keyScan)
      // The claim was full, so keys without a claimed job may still have one.
      if (jobs.length >= claiming.limit) for (const key of keys) keyScan.touched(key)
      return jobs
    })

  return (claiming) =>
    Effect.gen(function* () {
      const { cursor, limit, now, positions, queue, rated } = claiming
      const keyScan = cursor.keyScan ?? new KeyScan()
      cursor.keyScan = keyScan
      if (keyScan.isBlocked(now)) return yield* claimReady(claiming, keyScan)
      keyScan.looks()
      if (positions.mayRescan(now)) yield* scans.fromFront(claiming)
      let tries: Tries = yield* chooseTries(claiming, keyScan)
      let jobs = yield* claimOf(tries, claiming, keyScan)
      let last = keyScan.last
      for (let round = 1; round < rounds && jobs.length === 0 && !tries.isAll; round += 1) {
        last = tries.keys.at(-1) ?? last
        const keys = yield* keysAfter(queue, last, keysToTry(limit))
        tries = { keys, keyless: [], isAll: false }
        jobs = yield* claimOf(tries, claiming, keyScan)
      }
      // A rated claim may have run out of tokens before it tried every key.
      const triedAll = tries.isAll && !rated && jobs.length < limit
      if (triedAll && !jobs.some(({ crashCount }) => crashCount > 0)) keyScan.markBlocked(now)
      else if (jobs.length === 0) keyScan.last = last
      return jobs
    })
}
