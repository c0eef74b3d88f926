import { Effect, type Scope } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import * as Together from "../../core/Together.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import type { Claimed } from "./ClaimedRow.js"
import type { Claim, Claiming } from "./Claiming.js"
import type { Start } from "./ScanPositions.js"
import type { ScanSql } from "./ScanSql.js"
import type { Takes } from "./TakePg.js"

/** The last job of each priority, where the next claim starts. */
const lastsOf = (claimed: ReadonlyArray<Claimed>): ReadonlyMap<number, Start> => {
  const lasts = new Map<number, Start>()
  claimed.forEach(({ job, priority }, index) => {
    if (claimed[index + 1]?.priority !== priority) lasts.set(priority, { priority, runAt: job.runAt, id: job.id })
  })
  return lasts
}

/** Queues scanned by one statement. */
const maxScans = 64

/** Scans of queues. Those of several queues that are due at the same time are one statement, like their claims (see TakePg). */
export interface Scans {
  /** Resets the positions to the front of every priority that has waiting jobs. */
  readonly fromFront: (claiming: Claiming) => Effect.Effect<void, DatabaseError>
  /** Finds new priorities. Only searches the gaps between known ones, where there are no dead index entries. */
  readonly between: (claiming: Claiming) => Effect.Effect<void, DatabaseError>
}

/** The numbers in the second column, by the place in the first. */
const byPlace = (count: number) => (rows: ReadonlyArray<ReadonlyArray<unknown>>) => {
  const found = Array.from({ length: count }, (): Array<number> => [])
  for (const [place, priority] of rows) found[Number(place) - 1]?.push(Number(priority))
  return found
}

export const makeScans = (
  { direct }: typeof Database.Service,
  statements: ScanSql
): Effect.Effect<Scans, never, Scope.Scope> =>
  Effect.gen(function* () {
    const front = yield* Together.make<string, ReadonlyArray<number>, DatabaseError>({
      maxWeight: maxScans,
      many: (queues) =>
        Effect.map(direct.rows(statements.priorities, [SqlArrays.ofTexts(queues)]), byPlace(queues.length))
    })
    const between = yield* Together.make<Claiming, ReadonlyArray<number>, DatabaseError>({
      maxWeight: maxScans,
      many: (claims) => {
        const edges = claims.map(({ positions }) => [-32_769, ...positions.priorities, 32_768])
        const values = [
          SqlArrays.ofTexts(claims.map(({ queue }) => queue)),
          SqlArrays.ofPlain(edges.flatMap((of, index) => of.slice(1).map(() => index + 1))),
          SqlArrays.ofPlain(edges.flatMap((of) => of.slice(0, -1))),
          SqlArrays.ofPlain(edges.flatMap((of) => of.slice(1)))
        ]
        return Effect.map(direct.rows(statements.prioritiesBetween, values), byPlace(claims.length))
      }
    })
    return {
      fromFront: ({ now, positions, queue }) => Effect.map(front(queue), (found) => positions.rescan(found, now)),
      between: (claiming) => Effect.map(between(claiming), (found) => claiming.positions.probed(found, claiming.now))
    }
  })

/** Claims in queue order: priority, start time, id. */
export const make = (scans: Scans, { inOrder }: Takes): Claim => {
  const claimFrom = (claiming: Claiming) => {
    const { positions } = claiming
    if (positions.from.length === 0) return Effect.succeed([])
    return Effect.map(inOrder(claiming, positions.from), (claimed) => {
      // A rated claim that returns too few jobs ran out of tokens and has not scanned the whole queue.
      const wasFull = claiming.rated || claimed.length >= claiming.limit
      positions.took(lastsOf(claimed), claimed.at(-1)?.priority, wasFull, claiming.now)
      return claimed.map(({ job }) => job)
    })
  }

  const claimFromFront = (claiming: Claiming) =>
    Effect.zipRight(
      scans.fromFront(claiming),
      Effect.suspend(() => claimFrom(claiming))
    )

  return (claiming) => {
    const { limit, now, positions } = claiming
    const timed = Effect.flatMap(steadyNow, (began) =>
      Effect.tap(claimFromFront(claiming), () => Effect.map(steadyNow, (ended) => positions.lookTook(ended - began)))
    )
    const first = positions.isRescanDue(now) ? timed : claimFrom(claiming)
    return Effect.flatMap(first, (jobs) => {
      if (jobs.length === limit && positions.isProbeDue(now)) {
        return Effect.as(scans.between(claiming), jobs)
      }
      return jobs.length > 0 || !positions.mayRescan(now) ? Effect.succeed(jobs) : claimFromFront(claiming)
    })
  }
}
