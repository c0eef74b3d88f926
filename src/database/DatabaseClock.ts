import { Clock, Context, Duration, Effect, Layer, Schedule, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as DurationText from "../core/DurationText.js"
import { repeatLoop, single } from "../core/Loop.js"
import * as Setting from "../core/Setting.js"
import { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { SlewedTime } from "./SlewedTime.js"

// Every instant that is written or compared in the database is a parameter from Effect's Clock. Here that Clock is made
// to show the database's time, so that all pods agree with it and with each other whatever their own clocks say.

export const settings = {
  lease: Setting.duration(
    {
      key: "NIGHTSHIFT_LEASE",
      about:
        "How long a leader stays one without renewing. A pod that cannot tell the database's time to a tenth of it does not start."
    },
    "15s"
  )
}

/** The database answers so slowly that its time cannot be known well enough to keep leases by. */
export class ClockTooUncertain extends Schema.TaggedError<ClockTooUncertain>()("ClockTooUncertain", {
  halfRoundTrip: Schema.String,
  allowed: Schema.String
}) {
  override get message(): string {
    return `The database takes too long to answer to keep time by it: half a round trip is ${this.halfRoundTrip}, and a tenth of the lease is ${this.allowed}. Move this process closer to the database, or raise NIGHTSHIFT_LEASE.`
  }
}

/** How this process's clock stands to the database's. */
export class DatabaseTime extends Context.Tag("nightshift/database/DatabaseTime")<
  DatabaseTime,
  {
    /** How far the database is ahead of this machine. */
    readonly offsetMillis: Effect.Effect<number>
    /** Half of the best round trip of the last sampling: how wrong the offset may be. */
    readonly uncertaintyMillis: Effect.Effect<number>
  }
>() {}

interface Sample {
  readonly offset: number
  readonly halfRoundTrip: number
}

const samplingInterval = Duration.seconds(30)
const samplesAtOnce = 5

/** This machine's time; it only moves forward, unlike the wall clock, which an operator or NTP may set back. */
const localMillis = () => performance.timeOrigin + performance.now()

/** The database read its clock somewhere between our question and its answer: half-way is the best guess. */
const sampleOnce = (sql: (typeof Database.Service)["sql"]): Effect.Effect<Sample, DatabaseError> =>
  mapErrors(
    Effect.gen(function* () {
      const asked = localMillis()
      const rows = yield* sql<{ millis: number }>`
        select (extract(epoch from clock_timestamp()) * 1000)::float8 as millis`
      const answered = localMillis()
      const halfRoundTrip = (answered - asked) / 2
      return { offset: (rows[0]?.millis ?? answered) - (asked + halfRoundTrip), halfRoundTrip }
    })
  )

/** The sample with the shortest round trip is the least wrong. */
const sample = (sql: (typeof Database.Service)["sql"]) =>
  Effect.map(Effect.replicateEffect(sampleOnce(sql), samplesAtOnce), (samples) =>
    samples.reduce((best, next) => (next.halfRoundTrip < best.halfRoundTrip ? next : best))
  )

/**
 * An Effect Clock over slewed time. Sleeping and nanoseconds stay the machine's business: they measure spans, which need no
 * agreement, and which nothing that happens to the database's clock may stretch.
 */
const clockOver = (time: SlewedTime): Clock.Clock => {
  const machine = Clock.make()
  return {
    [Clock.ClockTypeId]: Clock.ClockTypeId,
    unsafeCurrentTimeMillis: () => Math.floor(time.now()),
    unsafeCurrentTimeNanos: () => machine.unsafeCurrentTimeNanos(),
    currentTimeMillis: Effect.sync(() => Math.floor(time.now())),
    currentTimeNanos: machine.currentTimeNanos,
    sleep: machine.sleep
  }
}

/** Sets Effect's Clock to the database's time and keeps it there. */
export const layer: Layer.Layer<DatabaseTime, ClockTooUncertain | DatabaseError | ConfigError, Database> =
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { sql } = yield* Database
      const lease = yield* settings.lease.config
      const first = yield* sample(sql)
      const allowed = Duration.times(lease, 0.1)
      if (first.halfRoundTrip > Duration.toMillis(allowed)) {
        return yield* new ClockTooUncertain({
          halfRoundTrip: DurationText.format(Duration.millis(Math.round(first.halfRoundTrip))),
          allowed: DurationText.format(allowed)
        })
      }
      const time = new SlewedTime(localMillis, first.offset)
      let uncertainty = first.halfRoundTrip

      const discipline = sample(sql).pipe(
        Effect.tap((latest) =>
          Effect.sync(() => {
            time.aim(latest.offset)
            uncertainty = latest.halfRoundTrip
          })
        ),
        Effect.catchAll((error) => Effect.logDebug("the database's clock could not be sampled", error))
      )
      const loop = single({
        name: "clock",
        schedule: Schedule.spaced(samplingInterval),
        runAtStart: false,
        run: discipline
      })
      yield* Effect.forkScoped(repeatLoop(loop))

      const facts = Layer.succeed(DatabaseTime, {
        offsetMillis: Effect.sync(() => time.offset),
        uncertaintyMillis: Effect.sync(() => uncertainty)
      })
      return Layer.merge(facts, Layer.setClock(clockOver(time)))
    })
  )
