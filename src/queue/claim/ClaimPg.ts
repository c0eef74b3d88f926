import { Clock, Duration, Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import type { ClaimedJob, ClaimRequest } from "../Queue.js"
import type { KnownQueues } from "../settings/KnownQueues.js"
import { formOf, type opensAt } from "../settings/QueueRow.js"
import { ClaimCursor, isBefore, type Start } from "./ClaimCursor.js"
import * as ClaimKeysPg from "./ClaimKeysPg.js"
import * as ClaimLinePg from "./ClaimLinePg.js"
import * as ClaimSql from "./ClaimSql.js"
import type { HeldLeases } from "./HeldLeases.js"
import { KeyScan } from "./KeyScan.js"

/** An empty claim reads the queue's row again if the cached one is older than this. */
const rereadAfter = Duration.seconds(1)

interface SeenJob extends Start {
  readonly queue: string
  readonly key: string | null
}

export interface Claims {
  readonly statements: ClaimSql.ClaimSql
  readonly claim: (request: ClaimRequest) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
  /** These jobs were stored by this process. */
  readonly saw: (jobs: ReadonlyArray<SeenJob>) => void
  /** Jobs were returned before the cursor's position, or stored by another process. */
  readonly rescan: (queue: string) => void
  /** Another process may have changed jobs of this queue, or of any queue if undefined. */
  readonly markChanged: (queue: string | undefined) => void
  /** A job of this key ended, so another may start. Returns whether this process claims by key in this queue. */
  readonly freed: (queue: string, key: string) => boolean
  /** State of a queue in which every due job waits for its key. */
  readonly blocked: (queue: string, now: number) => { readonly seenUntil: number; readonly until: number } | undefined
}

/** Claims over PostgreSQL, with one cursor per queue. */
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
  const keyScans = new Map<string, KeyScan>()
  const revisions = new Map<string, number | undefined>()

  const cursorOf = (queue: string): ClaimCursor => {
    const cursor = cursors.get(queue) ?? new ClaimCursor()
    cursors.set(queue, cursor)
    return cursor
  }

  const keyScanOf = (queue: string): KeyScan => {
    const keyScan = keyScans.get(queue) ?? new KeyScan()
    keyScans.set(queue, keyScan)
    return keyScan
  }

  /** After a settings change the positions are stale: a claim may have returned nothing although jobs were due. */
  const resetIfChanged = (queue: string, revision: number | undefined) => {
    if (revisions.get(queue) === revision) return
    revisions.set(queue, revision)
    cursors.delete(queue)
    keyScans.get(queue)?.markChanged()
  }

  const sawKey = ({ key, queue }: SeenJob) => {
    const keyScan = keyScans.get(queue)
    if (keyScan === undefined) return
    if (key === null) {
      keyScan.isMixed = true
      keyScan.markChanged()
    } else keyScan.touched(key)
  }

  const claimBy = (form: ClaimSql.Form, request: ClaimRequest, now: number) => {
    const cursor = cursorOf(request.queue)
    return form.keyed
      ? claimKeys(request, cursor, keyScanOf(request.queue), form.rated, now)
      : claimLine(request, cursor, form.rated, now)
  }

  // Not `Effect.gen`: see FinalizePg.
  const claim: Claims["claim"] = Effect.fnUntraced(function* (request) {
    const now = yield* Clock.currentTimeMillis
    const isClosed = (row: Parameters<typeof opensAt>[0]) =>
      row !== undefined && (row.paused || (row.throttledUntil ?? 0) > now)
    let row = yield* known.get(request.queue, Duration.infinity)
    if (isClosed(row)) row = yield* known.get(request.queue, rereadAfter)
    if (isClosed(row)) return []
    resetIfChanged(request.queue, row?.revision)
    const form = formOf(row, now)
    const jobs = yield* claimBy(form, request, now)
    if (jobs.length > 0) return jobs
    // The settings may have changed since the cached row was read.
    const newer = formOf(yield* known.get(request.queue, rereadAfter), now)
    return newer.keyed === form.keyed && newer.rated === form.rated ? jobs : yield* claimBy(newer, request, now)
  })

  return {
    statements,
    claim,
    saw: (jobs) => {
      if (keyScans.size > 0) jobs.forEach(sawKey)
      let first: SeenJob | undefined
      for (const job of jobs) {
        // Of neighbours in the same line, the first in order is enough.
        if (first !== undefined && first.queue === job.queue && first.priority === job.priority) {
          if (isBefore(job, first)) first = job
          continue
        }
        if (first !== undefined) cursorOf(first.queue).saw(first)
        first = job
      }
      if (first !== undefined) cursorOf(first.queue).saw(first)
    },
    rescan: (queue) => {
      cursors.delete(queue)
      keyScans.get(queue)?.markChanged()
    },
    markChanged: (queue) => {
      for (const [name, keyScan] of keyScans) if (queue === undefined || queue === name) keyScan.markChanged()
    },
    freed: (queue, key) => {
      const keyScan = keyScans.get(queue)
      keyScan?.touched(key)
      return keyScan !== undefined
    },
    blocked: (queue, now) => {
      const keyScan = keyScans.get(queue)
      const until = keyScan?.blockedUntil(now)
      return keyScan === undefined || until === undefined ? undefined : { seenUntil: keyScan.seenUntil, until }
    }
  }
}
