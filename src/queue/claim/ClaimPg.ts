import { Clock, Duration, Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { named } from "../../database/StatementTimes.js"
import type { ClaimedJob, ClaimRequest } from "../Queue.js"
import type { KnownQueues } from "../settings/KnownQueues.js"
import { formOf, type opensAt } from "../settings/QueueRow.js"
import { ClaimCursor, type Start } from "./ClaimCursor.js"
import * as ClaimKeysPg from "./ClaimKeysPg.js"
import * as ClaimLinePg from "./ClaimLinePg.js"
import * as ClaimSql from "./ClaimSql.js"
import type { HeldLeases } from "./HeldLeases.js"
import { KeyScan } from "./KeyScan.js"

/** A claim that comes back with nothing asks the queue's row why, at most so often. */
const lookAgain = Duration.seconds(1)

export interface Claims {
  readonly statements: ClaimSql.ClaimSql
  readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
  /** A job of this queue was stored or put back here. */
  readonly saw: (queue: string, job: Start & { readonly key?: string | null }) => void
  /** Jobs of this queue were put back somewhere behind, or somebody else stored some. */
  readonly rescan: (queue: string) => void
  /** Others may have done something to the queue's jobs, or to any queue's. */
  readonly stir: (queue: string | undefined) => void
  /** A job of this key has ended: its turn may be another's. Answers whether anybody here looks at keys of this queue. */
  readonly freed: (queue: string, key: string) => boolean
  /** What is known of a queue whose due jobs all wait for their keys. */
  readonly blocked: (queue: string, now: number) => { readonly seenUntil: number; readonly until: number } | undefined
}

/** Claims over PostgreSQL, each queue with a cursor of its own. */
export const make = (
  database: typeof Database.Service,
  known: typeof KnownQueues.Service,
  ids: IdGenerator,
  leases: HeldLeases
): Claims => {
  const statements = named("claim", ClaimSql.make(database.schema))
  const claimLine = ClaimLinePg.make(database, statements, ids, leases)
  const claimKeys = ClaimKeysPg.make(database, statements, ids, leases)
  const cursors = new Map<string, ClaimCursor>()
  const rings = new Map<string, KeyScan>()
  const revisions = new Map<string, number | undefined>()

  const cursorOf = (queue: string): ClaimCursor => {
    const cursor = cursors.get(queue) ?? new ClaimCursor()
    cursors.set(queue, cursor)
    return cursor
  }

  const ringOf = (queue: string): KeyScan => {
    const keyScan = rings.get(queue) ?? new KeyScan()
    rings.set(queue, keyScan)
    return keyScan
  }

  /** Under other settings a claim may have come back with nothing though much was due: its cursor says nothing any more. */
  const lookAnew = (queue: string, revision: number | undefined) => {
    if (revisions.get(queue) === revision) return
    revisions.set(queue, revision)
    cursors.delete(queue)
    rings.get(queue)?.stir()
  }

  const claimBy = (form: ClaimSql.Form, request: ClaimRequest, now: number) => {
    const cursor = cursorOf(request.queue)
    return form.keyed
      ? claimKeys(request, cursor, ringOf(request.queue), form.rated, now)
      : claimLine(request, cursor, form.rated, now)
  }

  const claim: Claims["claim"] = (request) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const isClosed = (row: Parameters<typeof opensAt>[0]) =>
        row !== undefined && (row.paused || (row.throttledUntil ?? 0) > now)
      let row = yield* known.get(request.queue, Duration.infinity)
      if (isClosed(row)) row = yield* known.get(request.queue, lookAgain)
      if (isClosed(row)) return []
      lookAnew(request.queue, row?.revision)
      const form = formOf(row, now)
      const jobs = yield* claimBy(form, request, now)
      if (jobs.length > 0) return jobs
      // The row may ask for something else by now than what it was taken for.
      const newer = formOf(yield* known.get(request.queue, lookAgain), now)
      return newer.keyed === form.keyed && newer.rated === form.rated ? jobs : yield* claimBy(newer, request, now)
    })

  return {
    statements,
    claim,
    saw: (queue, job) => {
      cursorOf(queue).saw(job)
      const keyScan = rings.get(queue)
      if (keyScan === undefined) return
      if (job.key === null || job.key === undefined) {
        keyScan.isMixed = true
        keyScan.stir()
      } else keyScan.touched(job.key)
    },
    rescan: (queue) => {
      cursors.delete(queue)
      rings.get(queue)?.stir()
    },
    stir: (queue) => {
      for (const [name, keyScan] of rings) if (queue === undefined || queue === name) keyScan.stir()
    },
    freed: (queue, key) => {
      const keyScan = rings.get(queue)
      keyScan?.touched(key)
      return keyScan !== undefined
    },
    blocked: (queue, now) => {
      const keyScan = rings.get(queue)
      const until = keyScan?.blockedUntil(now)
      return keyScan === undefined || until === undefined ? undefined : { seenUntil: keyScan.seenUntil, until }
    }
  }
}
