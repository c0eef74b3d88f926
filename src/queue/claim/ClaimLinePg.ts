import { Effect } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import type { Claimed } from "./ClaimedRow.js"
import type { Claim, Claiming, Take } from "./Claiming.js"
import type { Start } from "./ScanPositions.js"
import type { ScanSql } from "./ScanSql.js"

/** The last job of each priority, where the next claim starts. */
const lastsOf = (claimed: ReadonlyArray<Claimed>): ReadonlyMap<number, Start> => {
  const lasts = new Map<number, Start>()
  claimed.forEach(({ job, priority }, index) => {
    if (claimed[index + 1]?.priority !== priority) lasts.set(priority, { priority, runAt: job.runAt, id: job.id })
  })
  return lasts
}

export const startsOf = (starts: ReadonlyArray<Start>): ReadonlyArray<string> => [
  SqlArrays.ofPlain(starts.map(({ priority }) => priority)),
  SqlArrays.ofPlain(starts.map(({ runAt }) => runAt)),
  SqlArrays.ofTexts(starts.map(({ id }) => id))
]

/** Resets the positions to the front of every priority that has waiting jobs. */
export const scanFromFront = (
  { direct }: typeof Database.Service,
  scans: ScanSql,
  { now, positions, queue }: Claiming
): Effect.Effect<void, DatabaseError> =>
  Effect.map(direct.rows(scans.priorities, [queue]), (rows) =>
    positions.rescan(
      rows.map(([priority]) => Number(priority)),
      now
    )
  )

/** Claims in queue order: priority, start time, id. */
export const make = (database: typeof Database.Service, scans: ScanSql, take: Take): Claim => {
  /** Finds new priorities. Only searches the gaps between known ones, where there are no dead index entries. */
  const findPriorities = ({ now, positions, queue }: Claiming) => {
    const edges = [-32_769, ...positions.priorities, 32_768]
    const gaps = [SqlArrays.ofPlain(edges.slice(0, -1)), SqlArrays.ofPlain(edges.slice(1))]
    return Effect.map(
      mapErrors(database.sql.unsafe<{ priority: number }>(scans.prioritiesBetween, [queue, ...gaps])),
      (rows) =>
        positions.probed(
          rows.map(({ priority }) => priority),
          now
        )
    )
  }

  const claimFrom = (claiming: Claiming) => {
    const { positions } = claiming
    if (positions.from.length === 0) return Effect.succeed([])
    return Effect.map(take(claiming, startsOf(positions.from)), (claimed) => {
      // A rated claim that returns too few jobs ran out of tokens and has not scanned the whole queue.
      const wasFull = claiming.rated || claimed.length >= claiming.limit
      positions.took(lastsOf(claimed), claimed.at(-1)?.priority, wasFull, claiming.now)
      return claimed.map(({ job }) => job)
    })
  }

  const claimFromFront = (claiming: Claiming) =>
    Effect.zipRight(
      scanFromFront(database, scans, claiming),
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
        return Effect.as(findPriorities(claiming), jobs)
      }
      return jobs.length > 0 || !positions.mayRescan(now) ? Effect.succeed(jobs) : claimFromFront(claiming)
    })
  }
}
