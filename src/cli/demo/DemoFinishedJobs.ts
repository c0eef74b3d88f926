import { Clock, Duration, Effect, Random, Schema } from "effect"
import { makeGenerator, Workspace } from "../../core/Ids.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { instant } from "../../database/SqlInstant.js"
import { Storage } from "../../uploads/Storage.js"
import type { InvalidUpload, QuotaExceeded, UploadTooLarge } from "../../uploads/UploadErrors.js"
import { type DemoProfile, profiles } from "./DemoProfile.js"

// Jobs that finished before the demo started, and files that were never fetched. Finished jobs are inserted directly
// into the job table, because running them would take too long.

const minute = 60_000

/** Age of the oldest finished job. */
const reach = 90 * minute
const doneJobs = 1_200
const deadPerCause = 7

/** A finished job to insert. Instants are in epoch milliseconds. */
interface PastJob {
  readonly profile: DemoProfile
  readonly number: number
  readonly at: number
  readonly death?: NonNullable<DemoProfile["deaths"]>[number]
}

const runMillis = ({ number, profile: { usual, worst } }: PastJob) =>
  usual * 0.6 + ((number * 37) % 100) * (worst / 400)

const rowOf = (job: PastJob, id: string, pod: string) => {
  const { at, death, number, profile } = job
  const attempts = death?.[0] ?? 1
  const millis = runMillis(job)
  const tries = Array.from({ length: attempts }, (_, index) => {
    const startedAt = at + 40 + index * 9_000
    const last = index === attempts - 1
    const outcome = last ? death?.[1] : "retry"
    return { attempt: index + 1, pod, startedAt, endedAt: startedAt + millis, outcome, message: death?.[2] }
  })
  const started = tries.at(-1)?.startedAt ?? at
  return {
    id,
    queue: profile.queue,
    kind: profile.kind,
    payload: profile.payload(number),
    attempt: attempts,
    max_attempts: Math.max(attempts, 3),
    status: death === undefined ? "done" : "dead",
    death_count: death === undefined ? 0 : 1,
    dead_reason: death?.[1] ?? null,
    last_error: death?.[2] ?? null,
    history: death === undefined ? null : tries,
    created: at,
    started,
    finished: started + millis
  }
}

const insert = (schema: string) => `
  insert into ${schema}.job (id, queue, kind, payload, attempt, max_attempts, status, death_count, dead_reason,
    last_error, history, run_at, created_at, updated_at, started_at, finished_at)
  select r.id, r.queue, r.kind, r.payload, r.attempt, r.max_attempts, r.status, r.death_count, r.dead_reason,
    r.last_error, r.history, i.created, i.created, i.finished, i.started, i.finished
  from jsonb_to_recordset($1::jsonb) as r(id uuid, queue text, kind text, payload jsonb, attempt smallint,
    max_attempts smallint, status text, death_count smallint, dead_reason text, last_error text, history jsonb,
    created float8, started float8, finished float8),
    lateral (select ${instant("r.created")} as created, ${instant("r.started")} as started,
      ${instant("r.finished")} as finished) i`

/** One database sample per minute of the last day, with a slowly growing size. */
const insertHealth = (schema: string) => `
  insert into ${schema}.database_sample (minute, size_bytes, job_bytes, job_live_tuples, job_dead_tuples,
    oldest_transaction_seconds, connections)
  select ${instant("$1")} - n * interval '1 minute', 12500000 - n * 1000, 1400000 - n * 100,
    2000 + n % 90, 300 + (n * 7919 % 97) * 3 + (sin(n / 7.0) * 200)::int, 0.2, 14
  from generate_series(1, 1440) n on conflict (minute) do nothing`

const pastJobs = (now: number): Effect.Effect<ReadonlyArray<PastJob>> =>
  Effect.gen(function* () {
    const total = profiles.reduce((sum, { perMinute }) => sum + perMinute, 0)
    const jobs: Array<PastJob> = []
    for (const profile of profiles) {
      const count = Math.round((doneJobs * profile.perMinute) / total)
      for (let number = 0; number < count; number += 1) {
        jobs.push({ profile, number, at: now - minute - Math.floor((yield* Random.next) * reach) })
      }
      for (const [cause, death] of (profile.deaths ?? []).entries()) {
        // Exhausted jobs died during the simulated payment outage.
        const inIncident = death[1] === "exhausted"
        for (let number = 0; number < deadPerCause * (inIncident ? 3 : 1) - cause; number += 1) {
          const ago = Math.floor((yield* Random.next) * reach)
          const at = now - (inIncident ? 11 * minute + (ago % (6 * minute)) : minute + ago)
          jobs.push({ profile, number: number * 13 + cause, at, death })
        }
      }
    }
    return jobs.toSorted((a, b) => a.at - b.at)
  })

/** Runs an effect with the clock shifted into the past. */
const inThePast =
  (ago: Duration.DurationInput) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.clockWith((clock) => {
      const shift = Duration.toMillis(ago)
      const past = {
        [Clock.ClockTypeId]: Clock.ClockTypeId,
        unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() - shift,
        currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - shift),
        unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos() - BigInt(shift) * 1_000_000n,
        currentTimeNanos: Effect.map(clock.currentTimeNanos, (now) => now - BigInt(shift) * 1_000_000n),
        sleep: clock.sleep
      } satisfies Clock.Clock
      return Effect.withClock(effect, past)
    })

const initech = Schema.decodeSync(Workspace)("initech")

/** Files of a workspace without a puller. */
const forgottenFiles = Effect.gen(function* () {
  const storage = yield* Storage
  const files = ["tps-report.pdf", "cover-sheet.docx", "memo.txt"].map((filename) => ({
    filename,
    mimetype: "application/octet-stream",
    content: new TextEncoder().encode(`${filename}, not fetched\n`.repeat(200))
  }))
  yield* storage.putMany(initech, files).pipe(inThePast("7 hours"))
})

/** Inserts the finished jobs, database samples and unfetched files. */
export const write: Effect.Effect<
  void,
  DatabaseError | InvalidUpload | UploadTooLarge | QuotaExceeded,
  Database | Storage
> = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const ids = yield* makeGenerator
  const now = yield* Clock.currentTimeMillis
  const pod = ids.pod(now - 2 * reach)
  const rows = (yield* pastJobs(now)).map((job) => rowOf(job, ids.job(job.at), pod))
  yield* mapErrors(sql.unsafe(insert(schema), [JSON.stringify(rows)]))
  yield* mapErrors(sql.unsafe(insertHealth(schema), [now]))
  yield* forgottenFiles
})
