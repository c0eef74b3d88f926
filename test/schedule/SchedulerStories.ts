import { describe, expect, it, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Option } from "effect"
import * as ClusterMemory from "../../src/cluster/ClusterMemory.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import * as LeadershipPg from "../../src/cluster/LeadershipPg.js"
import { makeGenerator, Term } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import type { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import type { JobAdmin } from "../../src/queue/JobAdmin.js"
import type { JobsMemory } from "../../src/queue/JobsMemory.js"
import { Kinds } from "../../src/queue/Kinds.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import type { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import type { ScheduleDefinition } from "../../src/schedule/ScheduleDefinition.js"
import * as Scheduler from "../../src/schedule/Scheduler.js"
import { SchedulerConfig } from "../../src/schedule/SchedulerConfig.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import * as SchedulesPg from "../../src/schedule/SchedulesPg.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

export type World = Scheduler.Needs | JobAdmin | Queues

const config = Layer.succeed(SchedulerConfig, { poll: Duration.seconds(5), onTime: Duration.seconds(20) })

const kinds = Layer.orDie(
  Layer.effectDiscard(
    Effect.flatMap(Kinds, ({ register }) =>
      register([{ name: "report", queue: "mail", version: 3, attempts: 7, onDead: undefined }])
    )
  )
)

const memory: Layer.Layer<World | JobsMemory> = Layer.mergeAll(
  kinds,
  SchedulesMemory.layer,
  ClusterMemory.leadership
).pipe(
  Layer.provideMerge(QueueMemory.layer),
  Layer.provideMerge(Layer.mergeAll(Wakeups.layer, Transactions.layerMemory, Metrics.layer, config)),
  Layer.provideMerge(SteppableClock.layer)
)

/** Resets the tables, which is faster than creating a database. */
const emptied = Layer.effectDiscard(
  Effect.gen(function* () {
    const { sql } = yield* Database
    yield* sql`truncate nightshift.job, nightshift.schedule`
    yield* sql`update nightshift.leader set pod_id = null, leased_until = null`
  }).pipe(Effect.orDie)
)

const postgres = Layer.mergeAll(kinds, SchedulesPg.layer, LeadershipPg.layer).pipe(
  Layer.provideMerge(QueuePg.layer),
  Layer.provideMerge(Layer.mergeAll(Metrics.layer, config)),
  Layer.provide(Listener.layerPolling),
  Layer.provide(emptied),
  Layer.provideMerge(SteppableClock.layer)
)

type Story<R> = (title: string, tell: () => Effect.Effect<void, unknown, R>) => void

/** Runs stories on PostgreSQL, each isolated from the others. The clock starts at the beginning of 2030. */
export const onPostgres = (title: string, stories: (story: Story<World | Database | DatabaseUrl>) => void): void =>
  withLayer(TestDatabase.layer, { excludeTestServices: true })(`${title}, on PostgreSQL`, (it) =>
    stories((name, tell) => it.effect(name, () => Effect.provide(tell(), postgres)))
  )

/** Runs stories in memory and on PostgreSQL. */
export const everywhere = (title: string, stories: (story: Story<World>) => void): void => {
  describe(`${title}, in memory`, () => stories((name, tell) => it.live(name, () => Effect.provide(tell(), memory))))
  onPostgres(title, stories)
}

export const worlds = { memory }

export const define = (more: Partial<ScheduleDefinition> = {}): ScheduleDefinition => ({
  name: "nightly",
  kind: "report",
  payload: { day: "yesterday" },
  cron: "0 3 * * *",
  timezone: "UTC",
  queue: undefined,
  attempts: undefined,
  overlap: "allow",
  missed: "one",
  paused: false,
  ...more
})

export const create = (more: Partial<ScheduleDefinition> = {}) =>
  Effect.flatMap(Schedules, (schedules) => schedules.create(define(more)))

export const get = (name = "nightly") => Effect.flatMap(Schedules, (schedules) => schedules.get(name))

export const history = Effect.flatMap(Schedules, (schedules) => schedules.history("nightly"))

/** Wins an election and returns the term. Its lease outlasts every story that uses this. */
export const elected = Effect.gen(function* () {
  const leadership = yield* Leadership
  const pod = (yield* makeGenerator).pod(1)
  return Option.getOrThrow(yield* leadership.campaign(pod, Duration.days(20)))
})

export const nobodysTerm = Term.make(999)

export const stepTo = (instant: string) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => SteppableClock.advance(Date.parse(instant) - now))

/** Fires everything that is due. */
export const pass = (term: Term) => Effect.flatMap(Scheduler.make, (scheduler) => scheduler.pass(term))

/** Fires everything that is due at this instant. */
export const passAt = (instant: string, term: Term) => Effect.zipRight(stepTo(instant), pass(term))

export const jobs = Effect.map(
  Effect.flatMap(JobSearch, (search) => search.list({}, { limit: 1_000 })),
  (page) => page.jobs.toReversed()
)

export const ticks = Effect.map(jobs, (all) =>
  all.map(({ meta }) => (typeof meta === "object" && meta !== null && "tick" in meta ? String(meta.tick) : "none"))
)

export const nothing = { fired: 0, skipped: 0, missed: 0, seeded: 0, paused: 0, superseded: 0, failed: 0 }

export const expectNothingFired = Effect.map(jobs, (all) => expect(all).toEqual([]))
