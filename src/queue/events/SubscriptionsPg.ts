import { Clock, Effect } from "effect"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import type { Hints } from "../../database/Hints.js"
import { fragments, millis } from "../../database/SqlInstant.js"
import type { Match, Subscription, Window } from "./Event.js"
import { type Events, type NewSubscription, NotSubscribed, nextLook, subscriptionTopic } from "./Events.js"

// Subscribers of events, and the jobs that they get after the publish: of earlier events, and of windows.

/** Number of jobs of one queue and kind that a statement has stored. */
export interface StoredJobs {
  readonly queue: string
  readonly kind: string
  readonly count: number
}

/** What the SQL function `close_windows` returns. */
interface Answer {
  readonly jobs: ReadonlyArray<StoredJobs>
  readonly closed: number
  readonly next: number | null
  readonly debounce: number | null
}

interface SubscriptionRow {
  readonly event: string
  readonly kind: string
  readonly created_at: number
  readonly fill_from: number | null
  readonly debounce: number | null
  readonly most: number | null
  readonly by_paths: Window["by"] | null
  readonly paths: Match["paths"] | null
  readonly match: Match["values"] | null
}

/** An answer, the oldest transaction that its statement could not see because it may be open, and a newer one: its own. */
interface Look {
  readonly answer: Answer
  readonly oldest: string
  readonly newest: string
}

/**
 * Whether a transaction may still store events for a window whose subscriber is removed. It has read the subscriber, so it has begun
 * before the first look without one. After that look, all transactions of such publishers are older than the next look.
 */
const lateEvents = () => {
  let state: "windows" | "removed" | bigint = "windows"
  return {
    mayCome: ({ answer, newest, oldest }: Look): boolean => {
      if (answer.debounce !== null || answer.next !== null) state = "windows"
      else if (state === "windows") state = "removed"
      else {
        if (state === "removed") state = BigInt(newest)
        if (BigInt(oldest) < state) return true
        state = "windows"
        return false
      }
      return true
    }
  }
}

/** The pause between looks for late events is a fifth of this. */
const lateMillis = 5_000

/** Windows closed in one transaction. */
const windowBatch = 200
const fillBatch = 1_000

type Subscribing = Pick<typeof Events.Service, "subscribe" | "unsubscribe" | "subscriptions" | "fill" | "closeWindows">

/** `stored` counts and announces jobs, and returns how many there are. */
export const make = (
  { schema, sql }: typeof Database.Service,
  hints: typeof Hints.Service,
  stored: (jobs: ReadonlyArray<StoredJobs>, now: number) => Effect.Effect<number, DatabaseError>
): Subscribing => {
  const { instant } = fragments(sql)
  const subscriptions = sql(`${schema}.subscription`)

  const declare = (given: ReadonlyArray<NewSubscription>, now: number) =>
    sql`jsonb_to_recordset(${JSON.stringify(
      given.map(({ event, kind, match, past, window }) => ({
        event,
        kind,
        paths: match?.paths ?? null,
        match: match?.values ?? null,
        debounce: window?.debounce ?? null,
        most: window?.max ?? null,
        by_paths: window?.by ?? null,
        fill_from: past === undefined ? null : new Date(Math.max(0, now - past)).toISOString()
      }))
    )}::jsonb) as given (event text, kind text, paths jsonb, match jsonb, debounce float8, most int, by_paths jsonb,
      fill_from timestamptz)`

  const subscribe: Subscribing["subscribe"] = (kinds, given) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const declared = declare(given, now)
      yield* mapErrors(sql`delete from ${subscriptions} s where s.kind = any(${kinds}::text[])
        and not exists (select from ${declared} where given.event = s.event and given.kind = s.kind)`)
      if (given.length === 0) return
      yield* mapErrors(sql`
        insert into ${subscriptions} as known (event, kind, created_at, updated_at, fill_from, paths, match, debounce, most, by_paths)
        select event, kind, ${instant(now)}, ${instant(now)}, fill_from, paths, match, debounce, most, by_paths
        from ${declared} order by event, kind
        on conflict (event, kind) do update set updated_at = excluded.updated_at, paths = excluded.paths, match = excluded.match,
          debounce = excluded.debounce, most = excluded.most, by_paths = excluded.by_paths`)
      if (given.some(({ past, window }) => past !== undefined || window !== undefined))
        yield* hints.publish(subscriptionTopic, "all")
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
      return {
        jobs: yield* stored(row?.answer.jobs ?? [], now),
        isOpen: row?.answer.done === false,
        isSettled: row?.answer.settled === true
      }
    })

  const fill: Subscribing["fill"] = Effect.gen(function* () {
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

  const late = lateEvents()

  const closeWindows: Subscribing["closeWindows"] = Effect.gen(function* () {
    let jobs = 0
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(
        sql.unsafe<Look>(
          `select pg_snapshot_xmin(s)::text as oldest, pg_current_xact_id()::text as newest, ${schema}.close_windows($1::float8, $2::int) as answer
          from pg_current_snapshot() s`,
          [now, windowBatch]
        )
      )
      if (row === undefined) return { jobs, nextAt: undefined }
      const { closed, debounce, next, jobs: made } = row.answer
      jobs += yield* stored(made, now)
      if (closed === windowBatch && made.length > 0) continue
      if (!late.mayCome(row)) return { jobs, nextAt: undefined }
      return { jobs, nextAt: nextLook(now, debounce ?? lateMillis, next ?? undefined) }
    }
  })

  return {
    subscribe,
    fill,
    closeWindows,
    unsubscribe: (event, subscriber) =>
      Effect.flatMap(
        mapErrors(sql`delete from ${subscriptions} where event = ${event} and kind = ${subscriber} returning kind`),
        (rows) => (rows.length === 0 ? new NotSubscribed({ event, subscriber }) : Effect.void)
      ),
    subscriptions: Effect.map(
      mapErrors(sql<SubscriptionRow>`
        select event, kind, ${sql.literal(millis("created_at"))} as created_at, ${sql.literal(millis("fill_from"))} as fill_from,
          debounce, most, by_paths, paths, match
        from ${subscriptions} order by event, kind`),
      (rows) =>
        rows.map(
          (row): Subscription => ({
            event: row.event,
            subscriber: row.kind,
            createdAt: row.created_at,
            fillFromAt: row.fill_from ?? undefined,
            window:
              row.debounce === null
                ? undefined
                : { debounce: row.debounce, max: row.most ?? 1, by: row.by_paths ?? [] },
            match: row.paths === null ? undefined : { paths: row.paths, values: row.match ?? [] },
            compares: row.paths !== null || (row.by_paths ?? []).length > 0
          })
        )
    )
  }
}
