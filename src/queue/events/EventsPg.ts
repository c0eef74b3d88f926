import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Duration, Effect, Either, Exit, FiberRef, Layer, Option, Schema } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import * as Batcher from "../../core/Batcher.js"
import { floorOf, isId, type JobId, makeGenerator } from "../../core/Ids.js"
import { ownSubject } from "../../core/OwnSubject.js"
import { State } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import {
  type DatabaseError,
  DatabaseUnavailable,
  isDataError,
  mapErrors,
  retryAfter
} from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { fragments, millis } from "../../database/SqlInstant.js"
import { hot } from "../../database/Statements.js"
import { eraseBatch } from "../../database/SubjectText.js"
import { AfterCommit } from "../../database/Transaction.js"
import { Tally } from "../../telemetry/Tally.js"
import { OuterTransactionFailed } from "../JobErrors.js"
import { Notifier } from "../Notifier.js"
import type { EventJob, Published, StoredEvent } from "./Event.js"
import {
  type CheckedEvent,
  checked,
  checkedId,
  EventNotFound,
  Events,
  type InvalidEvent,
  jobIdOf,
  NotSubscribed,
  type WaitAnswer
} from "./Events.js"
import * as SubscriptionsPg from "./SubscriptionsPg.js"

/** What `publish_events` returns. */
interface Answer {
  readonly events: ReadonlyArray<{ readonly id: string; readonly repeated: boolean; readonly jobs: number }>
  readonly jobs: ReadonlyArray<SubscriptionsPg.StoredJobs>
  readonly woken: ReadonlyArray<string>
}

/** An event with its id: a repeated request finds what the first one stored. */
interface Stamped extends CheckedEvent {
  readonly eventId: string
}

interface EventRow {
  readonly id: string
  readonly name: string
  readonly published_at: number
  readonly key: string | null
  readonly own_id: string | null
  readonly data: unknown
  readonly replays: ReadonlyArray<string> | null
}

const toEvent = (row: EventRow): StoredEvent => ({
  id: row.id,
  name: row.name,
  publishedAt: row.published_at,
  key: row.key ?? undefined,
  ownId: row.own_id ?? undefined,
  data: row.data
})

/** Wait for an id that another open transaction publishes, as for dedupe keys. */
const lockTimeouts = { batch: "200ms", alone: "10s" }

const maxWeight = 500
const charactersPerUnit = 8_192
const purgeBatch = 1_000

const isOfOne = (error: DatabaseError) =>
  isDataError(error) || (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** A lost connection or a deadlock. The ids make a repetition safe. */
const isPassing = (error: DatabaseError) => error instanceof DatabaseUnavailable && error.sqlState !== "55P03"

const requestOf = (events: ReadonlyArray<Stamped>, now: number, more: object): string => {
  const each = events.map(({ data, eventId, id, key, name, subject }) => {
    const fields = JSON.stringify({ id: eventId, name, key: key ?? null, own_id: id ?? null, subject })
    return `${fields.slice(0, -1)},"data":${data}}`
  })
  return `${JSON.stringify({ now, ...more }).slice(0, -1)},"events":[${each.join(",")}]}`
}

/** Whether an event exists under its own id: a first try has stored it, whose reply was lost. */
const isStoredBefore = (event: Stamped | undefined, { id, repeated }: Answer["events"][number]) =>
  repeated && id === event?.eventId

const publishedOf = (events: ReadonlyArray<Stamped>, answer: Answer): ReadonlyArray<Published> =>
  answer.events.map((each, place) => {
    const isRepeated = each.repeated && !isStoredBefore(events[place], each)
    return { id: each.id, jobs: each.jobs, outcome: isRepeated ? "repeated" : "published" }
  })

/** Stores the events of a request, whose JSON is its parameter. */
export const publishStatement = (schema: string): string =>
  hot(`select ${schema}.publish_events($1::text::jsonb) as answer`)

const make = Effect.gen(function* () {
  const database = yield* Database
  const { direct, schema, sql, transaction } = database
  const notifier = yield* Notifier
  const hints = yield* Hints
  const tally = yield* Tally
  const ids = yield* makeGenerator
  const { instant } = fragments(sql)
  const table = sql(`${schema}.event`)
  const subscriptions = sql(`${schema}.subscription`)
  const waits = sql(`${schema}.event_wait`)
  const windowed = sql(`${schema}.windowed_event`)
  const jobs = sql(`${schema}.job`)
  const undos = sql(`${schema}.job_undo`)
  const statement = publishStatement(schema)
  const columns = sql.literal(`id, name, ${millis("published_at")} as published_at, key, own_id, data, replays`)

  const count = (stored: ReadonlyArray<SubscriptionsPg.StoredJobs>, now: number) => {
    for (const { count, kind, queue } of stored) tally.of(queue, kind).enqueued(count, now)
  }

  /** Counts and announces jobs that a function has stored. Returns how many. */
  const stored = (made: ReadonlyArray<SubscriptionsPg.StoredJobs>, now: number) =>
    Effect.suspend(() => {
      count(made, now)
      const sum = made.reduce((total, each) => total + each.count, 0)
      return Effect.as(notifier.storedBySql(new Set(made.map(({ queue }) => queue))), sum)
    })

  const store = (events: ReadonlyArray<Stamped>, now: number, more: object): Effect.Effect<Answer, DatabaseError> =>
    Effect.map(direct.rows(statement, [requestOf(events, now, more)]), (rows) => rows[0]?.[0] as Answer)

  /** Adds to an answer what a first try has stored and woken. The events are published even if this cannot be read. */
  const found = (events: ReadonlyArray<Stamped>, answer: Answer): Effect.Effect<Answer> => {
    const before = answer.events.flatMap((each, place) => (isStoredBefore(events[place], each) ? each.id : []))
    if (before.length === 0) return Effect.succeed(answer)
    const rows = sql<{ event: string; queue: string; kind: string | null }>`
      select e.id as event, j.queue, j.kind from ${table} e join ${subscriptions} s on s.event = e.name
      join ${jobs} j on j.id = ${sql(`${schema}.event_job`)}(e.id, s.kind) where e.id = any(${before}::uuid[])
      union all
      select w.taken, j.queue, null from ${waits} w join ${jobs} j on j.id = w.job where w.taken = any(${before}::uuid[])`
    return Effect.map(
      Effect.orElseSucceed(rows, () => []),
      (all) => ({
        events: answer.events.map((each, place) => {
          if (!isStoredBefore(events[place], each)) return each
          return { ...each, jobs: all.filter(({ event, kind }) => event === each.id && kind !== null).length }
        }),
        jobs: [...answer.jobs, ...all.flatMap(({ kind, queue }) => (kind === null ? [] : { kind, queue, count: 1 }))],
        woken: [...answer.woken, ...all.flatMap(({ kind, queue }) => (kind === null ? queue : []))]
      })
    )
  }

  const storeOutside = (events: ReadonlyArray<Stamped>, lock_timeout: string) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const once = Effect.flatMap(store(events, now, { lock_timeout }), (answer) => found(events, answer))
      const answer = yield* Effect.catchIf(once, isPassing, (first) => retryAfter(first, once))
      count(answer.jobs, now)
      yield* notifier.storedBySql(new Set([...answer.jobs.map(({ queue }) => queue), ...answer.woken]))
      return publishedOf(events, answer)
    })

  const batcher = yield* Batcher.make<Stamped, Published, DatabaseError, never>({
    weight: ({ data }) => 1 + data.length / charactersPerUnit,
    maxWeight,
    lanes: 2,
    gather: setImmediate,
    capacity: 20_000,
    isolate: isOfOne,
    alone: (event, error) =>
      Effect.map(retryAfter(error, storeOutside([event], lockTimeouts.alone)), ([only]) => only as Published),
    flush: (events) =>
      Effect.map(storeOutside(events, lockTimeouts.batch), (all) => all.map((each) => Exit.succeed(each)))
  })

  const stamped = (
    events: Parameters<typeof checked>[0],
    now: number
  ): Effect.Effect<ReadonlyArray<Stamped>, InvalidEvent> =>
    Effect.flatMap(FiberRef.get(ownSubject), (own) =>
      Either.map(checked(events, own), (all) => all.map((event) => ({ ...event, eventId: ids.plain(now) })))
    )

  const publish: typeof Events.Service.publish = (given) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const events = yield* stamped(given, now)
      const context = yield* Effect.context<never>()
      if (Option.isNone(Context.getOption(context, SqlClient.TransactionConnection))) {
        const [only] = events
        return events.length === 1 && only !== undefined
          ? [yield* batcher.submit(only)]
          : yield* storeOutside(events, lockTimeouts.alone)
      }
      const answer = yield* store(events, now, { notify: true })
      const counted = () => count(answer.jobs, now)
      Option.match(Context.getOption(context, AfterCommit), {
        onNone: counted,
        onSome: (later) => void later.push(counted)
      })
      return publishedOf(events, answer)
    })

  const publishInside: typeof Events.Service.publishInside = (run, given) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const events = yield* stamped(given, now)
      const text = (request: string) =>
        `select answer::text as answer, pg_current_xact_id()::text as transaction from ${schema}.publish_events(${request}) as answer`
      const parameter = "$1::text::jsonb"
      const rows = yield* Effect.tryPromise({
        try: () =>
          run({
            text: text(parameter),
            within: (id) =>
              `${text(`case when pg_current_xact_id_if_assigned() = '${BigInt(id)}'::xid8 then ${parameter} end`)} where answer->'events' <> 'null'::jsonb`,
            parameter: requestOf(events, now, { notify: true })
          }),
        catch: (error) => new OuterTransactionFailed({ error })
      })
      const answer = rows[0]?.answer
      return typeof answer === "string"
        ? publishedOf(events, JSON.parse(answer) as Answer)
        : yield* new OuterTransactionFailed({ error: "the statement returned no row" })
    })

  const find = (id: string) =>
    Effect.gen(function* () {
      const [row] = yield* mapErrors(sql<EventRow>`select ${columns} from ${table} where id = ${yield* checkedId(id)}`)
      return row ?? (yield* new EventNotFound({ id }))
    })

  const get: typeof Events.Service.get = (id) =>
    Effect.gen(function* () {
      const row = yield* find(id)
      const subscribers = yield* mapErrors(
        sql<{ kind: string; job: string | null; is_open: boolean }>`
          select s.kind, w.job, w.event is not null and w.job is null as is_open
          from ${subscriptions} s left join ${windowed} w on w.event = ${row.id} and w.kind = s.kind
          where s.event = ${row.name} order by s.kind`
      )
      const made = subscribers.map(({ is_open, job, kind }) => ({
        subscriber: kind,
        id: job ?? (jobIdOf(id, kind) as string),
        replayed: false,
        isOpen: is_open
      }))
      const replays = row.replays ?? []
      const found = yield* mapErrors(sql<{ id: string; kind: string; events: number; state: string }>`
        select id, kind, coalesce(jsonb_array_length(meta->'events'), 1) as events, case
          when status = 'pending' and run_at > ${instant(yield* Clock.currentTimeMillis)}
            then case when last_error is null then 'scheduled' else 'retrying' end
          when dead_reason = 'cancelled' then 'cancelled' else status end as state
        from ${jobs} where id = any(${[...made.map(({ id }) => id), ...replays]}::uuid[])`)
      const byId = new Map(found.map((job) => [job.id, job]))
      const stateOf = (job: string) => Option.getOrUndefined(Schema.decodeUnknownOption(State)(byId.get(job)?.state))
      const again = replays.map((job) => ({
        subscriber: byId.get(job)?.kind ?? "",
        id: job,
        replayed: true,
        isOpen: false
      }))
      const all: ReadonlyArray<EventJob> = [...made, ...again].map((job) => ({
        ...job,
        state: stateOf(job.id),
        events: byId.get(job.id)?.events ?? 0
      }))
      return { ...toEvent(row), jobs: all }
    })

  const replay: typeof Events.Service.replay = (id, kind) =>
    transaction(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const event = yield* find(id)
        const job = ids.job(now)
        const rows = yield* mapErrors(
          sql.unsafe<{ queue: string; kind: string }>(
            `select * from ${schema}.deliver_events(array[$1::uuid], $2::text,
            to_timestamp($3::float8 / 1000), $4::uuid)`,
            [id, kind, now, job]
          )
        )
        const [made] = rows
        if (made === undefined) return yield* new NotSubscribed({ event: event.name, subscriber: kind })
        yield* mapErrors(sql`update ${table} set replays = replays || ${job}::uuid where id = ${id}`)
        yield* notifier.stored(new Set([made.queue]), true)
        return job as JobId
      })
    )

  return Events.of({
    publish,
    publishInside,
    ...SubscriptionsPg.make(database, hints, stored),
    get,
    list: ({ cursor, limit, name }) =>
      Effect.gen(function* () {
        if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
        const after = cursor === undefined ? sql`true` : sql`id < ${cursor}`
        const named = name === undefined ? sql`true` : sql`name = ${name}`
        const rows = yield* mapErrors(sql<EventRow>`
          select ${columns} from ${table} where ${after} and ${named} order by id desc limit ${limit + 1}`)
        const events = rows.slice(0, limit).map(toEvent)
        return { events, next: rows.length > limit ? events.at(-1)?.id : undefined }
      }),
    replay,
    wait: ({ ends, event, execution, job, match, name }) =>
      Effect.map(
        mapErrors(
          sql.unsafe<{ answer: WaitAnswer }>(`select ${schema}.wait_for_event($1::text::jsonb) as answer`, [
            JSON.stringify({
              execution,
              job,
              name,
              event,
              paths: match.paths,
              match: match.values,
              ...(ends ? { ends } : {})
            })
          ])
        ),
        ([row]) => row?.answer ?? { settled: false }
      ),
    erase: (subject, act) =>
      act === "count"
        ? Effect.map(
            mapErrors(sql<{ count: number }>`select count(*)::int as count from ${table} where subject = ${subject}`),
            ([row]) => row?.count ?? 0
          )
        : transaction(
            Effect.gen(function* () {
              const found = yield* mapErrors(
                sql<{ id: string }>`select id from ${table} where subject = ${subject} order by id limit ${eraseBatch}`
              )
              const erased = found.map(({ id }) => id)
              // In the order in which a leader that closes their windows locks them. Their jobs have the subject.
              yield* mapErrors(sql`delete from ${windowed} w using (
                select event, kind from ${windowed} where event = any(${erased}::uuid[])
                order by kind, bucket, event for update) o where w.event = o.event and w.kind = o.kind`)
              yield* mapErrors(sql`delete from ${table} where id = any(${erased}::uuid[])`)
              // Of replays.
              yield* mapErrors(
                sql`update ${sql(`${schema}.audit`)} set reason = null where target = any(${erased}::text[])`
              )
              return found.length
            })
          ),
    purge: (olderThan) =>
      Effect.gen(function* () {
        const before = floorOf((yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan))
        let purged = 0
        for (;;) {
          const rows = yield* mapErrors(sql`delete from ${table} where id in (
            select id from ${table} e where id < ${before}
              and not exists (select from ${windowed} w where w.event = e.id and w.job is null)
            order by id limit ${purgeBatch}) returning id`)
          purged += rows.length
          if (rows.length < purgeBatch) break
        }
        yield* mapErrors(sql`delete from ${windowed} w where w.event < ${before}
          and not exists (select from ${table} e where e.id = w.event)`)
        // An execution that has ended may be requeued: its other waits must not take the same events.
        yield* mapErrors(sql`delete from ${waits} w where not exists (select from ${jobs} j
            where j.id = w.job and (j.finished_at is null or w.taken is not null))
          and not exists (select from ${undos} u where u.job_id = w.job)`)
        return purged
      })
  })
})

export const layer: Layer.Layer<Events, never, Database | Notifier | Hints> = Layer.scoped(Events, make)
