import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Duration, Effect, Either, Exit, Layer, Option, Schema } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import * as Batcher from "../../core/Batcher.js"
import { floorOf, isId, type JobId, makeGenerator } from "../../core/Ids.js"
import { State } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable, isDataError, mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { fragments, millis } from "../../database/SqlInstant.js"
import { AfterCommit } from "../../database/Transaction.js"
import { Tally } from "../../telemetry/Tally.js"
import { OuterTransactionFailed } from "../JobErrors.js"
import { Notifier } from "../Notifier.js"
import type { EventJob, Published, StoredEvent, Subscription } from "./Event.js"
import {
  type CheckedEvent,
  checked,
  checkedId,
  EventNotFound,
  Events,
  type InvalidEvent,
  jobIdOf,
  type NewSubscription,
  NotSubscribed,
  subscriptionTopic,
  type WaitAnswer
} from "./Events.js"

/** What `publish_events` returns. */
interface Answer {
  readonly events: ReadonlyArray<{ readonly id: string; readonly repeated: boolean; readonly jobs: number }>
  readonly jobs: ReadonlyArray<StoredJobs>
  readonly woken: ReadonlyArray<string>
}

interface StoredJobs {
  readonly queue: string
  readonly kind: string
  readonly count: number
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
const fillBatch = 1_000

const isOfOne = (error: DatabaseError) =>
  isDataError(error) || (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** A lost connection or a deadlock. The ids make a repetition safe. */
const isPassing = (error: DatabaseError) => error instanceof DatabaseUnavailable && error.sqlState !== "55P03"

const requestOf = (events: ReadonlyArray<Stamped>, now: number, more: object): string => {
  const each = events.map(({ data, eventId, id, key, name }) => {
    const fields = JSON.stringify({ id: eventId, name, key: key ?? null, own_id: id ?? null })
    return `${fields.slice(0, -1)},"data":${data}}`
  })
  return `${JSON.stringify({ now, ...more }).slice(0, -1)},"events":[${each.join(",")}]}`
}

/** An event that exists under its own id was stored by a first try, whose reply was lost. */
const publishedOf = (events: ReadonlyArray<Stamped>, answer: Answer): ReadonlyArray<Published> =>
  answer.events.map(({ id, jobs, repeated }, place) => {
    const isRepeated = repeated && id !== events[place]?.eventId
    return { id, jobs, outcome: isRepeated ? "repeated" : "published" }
  })

const make = Effect.gen(function* () {
  const { direct, schema, sql, transaction } = yield* Database
  const notifier = yield* Notifier
  const hints = yield* Hints
  const tally = yield* Tally
  const ids = yield* makeGenerator
  const { instant } = fragments(sql)
  const table = sql(`${schema}.event`)
  const subscriptions = sql(`${schema}.subscription`)
  const waits = sql(`${schema}.event_wait`)
  const jobs = sql(`${schema}.job`)
  const columns = sql.literal(`id, name, ${millis("published_at")} as published_at, key, own_id, data, replays`)
  const statement = (request: string) => `select ${schema}.publish_events(${request}) as answer`

  const count = (stored: ReadonlyArray<StoredJobs>, now: number) => {
    for (const { count, kind, queue } of stored) tally.of(queue, kind).enqueued(count, now)
  }

  const store = (events: ReadonlyArray<Stamped>, now: number, more: object): Effect.Effect<Answer, DatabaseError> =>
    Effect.map(
      direct.rows(statement("$1::text::jsonb"), [requestOf(events, now, more)]),
      (rows) => rows[0]?.[0] as Answer
    )

  const storeOutside = (events: ReadonlyArray<Stamped>, lock_timeout: string) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const once = store(events, now, { lock_timeout })
      const answer = yield* Effect.catchIf(once, isPassing, () => once)
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
    alone: (event) => Effect.map(storeOutside([event], lockTimeouts.alone), ([only]) => only as Published),
    flush: (events) =>
      Effect.map(storeOutside(events, lockTimeouts.batch), (all) => all.map((each) => Exit.succeed(each)))
  })

  const stamped = (
    events: Parameters<typeof checked>[0],
    now: number
  ): Either.Either<ReadonlyArray<Stamped>, InvalidEvent> =>
    Either.map(checked(events), (all) => all.map((event) => ({ ...event, eventId: ids.plain(now) })))

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

  const declare = (given: ReadonlyArray<NewSubscription>, now: number) =>
    sql`jsonb_to_recordset(${JSON.stringify(
      given.map(({ event, kind, match, past }) => ({
        event,
        kind,
        paths: match?.paths ?? null,
        match: match?.values ?? null,
        fill_from: past === undefined ? null : new Date(Math.max(0, now - past)).toISOString()
      }))
    )}::jsonb) as given (event text, kind text, paths jsonb, match jsonb, fill_from timestamptz)`

  const subscribe: typeof Events.Service.subscribe = (kinds, given) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const declared = declare(given, now)
      yield* mapErrors(sql`delete from ${subscriptions} s where s.kind = any(${kinds}::text[])
        and not exists (select from ${declared} where given.event = s.event and given.kind = s.kind)`)
      if (given.length === 0) return
      yield* mapErrors(sql`
        insert into ${subscriptions} as known (event, kind, created_at, updated_at, fill_from, paths, match)
        select event, kind, ${instant(now)}, ${instant(now)}, fill_from, paths, match from ${declared} order by event, kind
        on conflict (event, kind) do update set updated_at = excluded.updated_at, paths = excluded.paths, match = excluded.match`)
      if (given.some(({ past }) => past !== undefined)) yield* hints.publish(subscriptionTopic, "all")
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
        sql<{ kind: string }>`select kind from ${subscriptions} where event = ${row.name} order by kind`
      )
      const made = subscribers.map(({ kind }) => ({
        subscriber: kind,
        id: jobIdOf(id, kind) as string,
        replayed: false
      }))
      const replays = row.replays ?? []
      const found = yield* mapErrors(sql<{ id: string; kind: string; state: string }>`
        select id, kind, case
          when status = 'pending' and run_at > ${instant(yield* Clock.currentTimeMillis)}
            then case when last_error is null then 'scheduled' else 'retrying' end
          when dead_reason = 'cancelled' then 'cancelled' else status end as state
        from ${jobs} where id = any(${[...made.map(({ id }) => id), ...replays]}::uuid[])`)
      const byId = new Map(found.map((job) => [job.id, job]))
      const stateOf = (job: string) => Option.getOrUndefined(Schema.decodeUnknownOption(State)(byId.get(job)?.state))
      const again = replays.map((job) => ({ subscriber: byId.get(job)?.kind ?? "", id: job, replayed: true }))
      const all: ReadonlyArray<EventJob> = [...made, ...again].map((job) => ({ ...job, state: stateOf(job.id) }))
      return { ...toEvent(row), jobs: all }
    })

  const fillOne = (event: string, kind: string) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(
        sql.unsafe<{ answer: { settled: boolean; done: boolean; jobs: ReadonlyArray<StoredJobs> } }>(
          `select ${schema}.fill_subscription($1::text, $2::text, $3::float8, $4::int) as answer`,
          [event, kind, now, fillBatch]
        )
      )
      const stored = row?.answer.jobs ?? []
      count(stored, now)
      yield* notifier.storedBySql(new Set(stored.map(({ queue }) => queue)))
      return {
        jobs: stored.reduce((sum, each) => sum + each.count, 0),
        isOpen: row?.answer.done === false,
        isSettled: row?.answer.settled === true
      }
    })

  const fill: typeof Events.Service.fill = Effect.gen(function* () {
    const open = yield* mapErrors(
      sql<{
        event: string
        kind: string
      }>`select event, kind from ${subscriptions} where fill_from is not null order by 1, 2`
    )
    let jobs = 0
    let isOpen = false
    for (const { event, kind } of open) {
      // The first call notes which transactions must end, the next ones deliver if they have.
      let last = yield* fillOne(event, kind)
      if (!last.isSettled) last = yield* fillOne(event, kind)
      jobs += last.jobs
      while (last.isOpen && last.isSettled) {
        last = yield* fillOne(event, kind)
        jobs += last.jobs
      }
      isOpen ||= last.isOpen
    }
    return { jobs, isOpen }
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
        const [stored] = rows
        if (stored === undefined) return yield* new NotSubscribed({ event: event.name, subscriber: kind })
        yield* mapErrors(sql`update ${table} set replays = replays || ${job}::uuid where id = ${id}`)
        yield* notifier.stored(new Set([stored.queue]), true)
        return job as JobId
      })
    )

  return Events.of({
    publish,
    publishInside,
    subscribe,
    unsubscribe: (event, subscriber) =>
      Effect.flatMap(
        mapErrors(sql`delete from ${subscriptions} where event = ${event} and kind = ${subscriber} returning kind`),
        (rows) => (rows.length === 0 ? new NotSubscribed({ event, subscriber }) : Effect.void)
      ),
    subscriptions: Effect.map(
      mapErrors(sql<{ event: string; kind: string; created_at: number; fill_from: number | null }>`
        select event, kind, ${sql.literal(millis("created_at"))} as created_at, ${sql.literal(millis("fill_from"))} as fill_from
        from ${subscriptions} order by event, kind`),
      (rows) =>
        rows.map(
          (row): Subscription => ({
            event: row.event,
            subscriber: row.kind,
            createdAt: row.created_at,
            fillFromAt: row.fill_from ?? undefined
          })
        )
    ),
    fill,
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
    wait: ({ event, execution, job, match, name }) =>
      Effect.map(
        mapErrors(
          sql.unsafe<{ answer: WaitAnswer }>(`select ${schema}.wait_for_event($1::text::jsonb) as answer`, [
            JSON.stringify({ execution, job, name, event, paths: match.paths, match: match.values })
          ])
        ),
        ([row]) => row?.answer ?? { settled: false }
      ),
    purge: (olderThan) =>
      Effect.gen(function* () {
        const before = floorOf((yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan))
        let purged = 0
        for (;;) {
          const rows = yield* mapErrors(sql`delete from ${table} where id in (
            select id from ${table} where id < ${before} order by id limit ${purgeBatch}) returning id`)
          purged += rows.length
          if (rows.length < purgeBatch) break
        }
        yield* mapErrors(sql`delete from ${waits} w where not exists (select from ${jobs} j
          where j.dedupe_key = w.execution and j.dedupe_scope = 'retained' and j.finished_at is null)`)
        return purged
      })
  })
})

export const layer: Layer.Layer<Events, never, Database | Notifier | Hints> = Layer.scoped(Events, make)
