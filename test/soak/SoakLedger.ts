import { appendFileSync, closeSync, openSync, readSync } from "node:fs"
import { Effect } from "effect"
import type { Deployment } from "../faults/Deployment.js"
import * as HistoryChecker from "../faults/HistoryChecker.js"

// The ledger of a soak outlives the rows, which retention deletes after minutes. Callers note here what they attempt and
// what was acknowledged, handlers append their runs to a file, and every few seconds the ended rows are read. Jobs that are
// old enough are given to the history checker and forgotten, so that the ledger stays small however long the soak is.

/** A row under the name by which its caller knows the job. */
interface SeenRow extends HistoryChecker.JobRow {
  readonly row: string
  readonly kind: string
  readonly isEnded: boolean
  readonly finishedAt: number | null
  readonly latency: number | null
  readonly state: string
}

const rowsOf = (schema: string, condition: string) => `
  select id as row, kind, status, attempt, max_attempts as "attempts", result->>'run' as run, dead_reason as "reason",
    case when meta ? 'delivery' then 'hook ' || (meta->>'delivery')
      when meta ? 'tick' then 'beat ' || (meta->>'tick')
      when kind = 'file_arrived' then 'file ' || (payload->>'name')
      when woken is not null then dedupe_key
      else id::text end as id,
    finished_at is not null as "isEnded", extract(epoch from finished_at)::float8 * 1000 as "finishedAt",
    extract(epoch from finished_at - created_at)::float8 * 1000 as latency,
    concat_ws(' ', status, finished_at, attempt, result) as state
  from "${schema}".job where kind <> 'parcel' and ${condition}`

/** Kinds whose latency is measured: they run once, and as soon as they are stored. */
const prompt = new Set(["work", "once"])

export interface SoakLedger {
  /** A caller is about to make a request that creates this job. */
  readonly attempt: (job: HistoryChecker.Attempted) => void
  /** The request was answered with success. */
  readonly acknowledge: (id: string) => void
  /** A process was killed: its runs are over. */
  readonly gone: (pid: number) => void
  /** Reads new runs and ended rows. */
  readonly collect: Effect.Effect<void, Error>
  /** Checks and forgets the jobs attempted before this instant; returns every broken promise. */
  readonly check: (before: number) => Effect.Effect<ReadonlyArray<string>, Error>
  /** Milliseconds from enqueue to the end of the jobs that ended since the last call. */
  readonly takeLatencies: () => ReadonlyArray<number>
  /** Jobs found correct so far, by kind. */
  readonly checked: () => Readonly<Record<string, number>>
}

/** Returns the complete lines appended to a file since the last call. */
export const follow = (file: string): (() => ReadonlyArray<string>) => {
  const opened = openSync(file, "a+")
  process.once("exit", () => closeSync(opened))
  let offset = 0
  let rest = Buffer.alloc(0)
  return () => {
    const pieces = [rest]
    for (;;) {
      const piece = Buffer.alloc(1 << 20)
      const length = readSync(opened, piece, 0, piece.length, offset)
      offset += length
      pieces.push(piece.subarray(0, length))
      if (length < piece.length) break
    }
    const text = Buffer.concat(pieces)
    const end = text.lastIndexOf(10) + 1
    rest = text.subarray(end)
    return text
      .subarray(0, end)
      .toString()
      .split("\n")
      .filter((line) => line !== "")
  }
}

export const make = (deployment: Deployment, handlersFile: string, callersFile: string): SoakLedger => {
  const open = new Map<string, { readonly job: HistoryChecker.Attempted; readonly since: number }>()
  const acknowledged = new Set<string>()
  const forgotten = new Set<string>()
  const ended = new Map<string, SeenRow>()
  const events = new Map<string, Array<HistoryChecker.RunEvent>>()
  const lastOfKey = new Map<string, HistoryChecker.Attempted>()
  const late = new Set<string>()
  const absences: Array<HistoryChecker.Absence> = []
  const counts: Record<string, number> = {}
  let changed: Array<string> = []
  let latencies: Array<number> = []
  let taken = 0
  const newLines = follow(handlersFile)
  const note = (line: object) => appendFileSync(callersFile, `${JSON.stringify({ ...line, at: Date.now() })}\n`)

  const attempt = (job: HistoryChecker.Attempted) => {
    open.set(job.id, { job, since: Date.now() })
    note({ attempted: job })
  }
  const acknowledge = (id: string) => {
    acknowledged.add(id)
    note({ acknowledged: id })
  }

  const readEvents = () => {
    for (const line of newLines()) {
      const event = JSON.parse(line) as HistoryChecker.RunEvent | { event: "absent"; pid: number; from: number }
      if (event.event === "absent") absences.push({ ...event, to: Number.POSITIVE_INFINITY })
      else if (forgotten.has(event.job)) late.add(`job ${event.job} ran again after it had ended`)
      else events.set(event.job, [...(events.get(event.job) ?? []), event])
    }
  }

  // Jobs are noted before their request is sent. Rows and runs are read first, so that the job of each is known.
  const takeAttempted = () => {
    for (; taken < deployment.attempted.length; taken += 1) {
      const job = deployment.attempted[taken]
      if (job !== undefined) attempt(job)
    }
  }

  const collect = Effect.gen(function* () {
    const rows = yield* deployment.query<SeenRow>(rowsOf(deployment.schema, "finished_at is not null"))
    for (const row of rows) {
      const before = ended.get(row.row)
      if (before === undefined) {
        if (forgotten.has(row.id)) late.add(`job ${row.id} was stored again after it had ended`)
        if (row.latency !== null && prompt.has(row.kind)) latencies.push(row.latency)
      } else if (before.state !== row.state) changed.push(row.id)
      ended.set(row.row, row)
    }
    const kept = new Set(rows.map(({ row }) => row))
    for (const [row, { id }] of ended) if (!kept.has(row) && forgotten.has(id)) ended.delete(row)
    readEvents()
    takeAttempted()
  })

  const committedOf = (batch: ReadonlySet<string>) =>
    Effect.gen(function* () {
      const ids = [...batch].filter((id) => /^[0-9a-f-]{36}$/.test(id))
      const orders = [...batch].filter((id) => id.startsWith("order/"))
      const effects = yield* deployment.query<{ id: string }>(
        `with effects as (delete from public.fault_effect where job = any($1::uuid[]) returning job::text as id),
           bookings as (delete from public.soak_booking where 'order/' || id = any($2::text[]) returning 'order/' || id as id)
         select id from effects union all select id from bookings`,
        [ids, orders]
      )
      return effects.map(({ id }) => id)
    })

  const check = (before: number) =>
    Effect.gen(function* () {
      yield* collect
      for (const { id } of deployment.attempted.slice(-5_000)) {
        if (deployment.acknowledged.has(id) && open.has(id) && !acknowledged.has(id)) acknowledge(id)
      }
      const batch = [...open.values()].filter(({ since }) => since < before).map(({ job }) => job)
      const names = new Set(batch.map(({ id }) => id))
      const unfinished = yield* deployment.query<SeenRow>(rowsOf(deployment.schema, "finished_at is null"))
      takeAttempted()
      const ofBatch = (row: SeenRow) => names.has(row.id) || (!open.has(row.id) && !forgotten.has(row.id))
      const carried = [...lastOfKey.values()]
      const isCarried = new Set(carried.map(({ id }) => id))
      const rows = [...ended.values(), ...unfinished].filter((row) => ofBatch(row) || isCarried.has(row.id))
      const found = HistoryChecker.check({
        attempted: [...carried, ...batch],
        acknowledged: new Set(batch.map(({ id }) => id).filter((id) => acknowledged.has(id))),
        rows,
        events: [...carried, ...batch].flatMap(({ id }) => events.get(id) ?? []),
        absences,
        committed: yield* committedOf(names),
        changedAfterEnd: changed
      })
      const strangers = [...events.keys()].filter((id) => !open.has(id) && !isCarried.has(id))
      const result = [
        ...found,
        ...late,
        ...strangers.map((id) => `a run belongs to job ${id}, which was never enqueued`)
      ]
      for (const id of strangers) events.delete(id)
      changed = []
      late.clear()
      for (const job of batch) {
        counts[job.kind] = (counts[job.kind] ?? 0) + 1
        open.delete(job.id)
        acknowledged.delete(job.id)
        const before = job.key === undefined ? undefined : lastOfKey.get(job.key)
        if (job.key !== undefined) lastOfKey.set(job.key, job)
        // The last job of a key stays until its successor has been compared with it.
        for (const id of job.key === undefined ? [job.id] : before === undefined ? [] : [before.id]) {
          events.delete(id)
          forgotten.add(id)
        }
      }
      return result
    })

  return {
    attempt,
    acknowledge,
    gone: (pid) => void absences.push({ pid, from: Date.now(), to: Number.POSITIVE_INFINITY }),
    collect,
    check,
    takeLatencies: () => {
      const all = latencies
      latencies = []
      return all
    },
    checked: () => counts
  }
}
