import { Clock, Context, Duration, Effect, Layer, Schedule, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as DurationText from "../core/DurationText.js"
import { repeated } from "../core/Loop.js"
import * as Setting from "../core/Setting.js"
import { Database, patiently } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"

// Every instant that is written to or compared in the database is a parameter taken from Effect's Clock. This layer
// makes that Clock follow the database's time, so that all pods agree on the time regardless of their system clocks.

export const settings = {
  lease: Setting.duration(
    {
      key: "NIGHTSHIFT_LEASE",
      about:
        "Time after which a leader that does not renew loses leadership. A process that cannot measure the database's clock to within a tenth of this does not start."
    },
    "15s"
  )
}

/** The database answers too slowly to measure its clock accurately enough for leases. */
export class ClockTooUncertain extends Schema.TaggedError<ClockTooUncertain>()("ClockTooUncertain", {
  halfRoundTrip: Schema.String,
  allowed: Schema.String
}) {
  override get message(): string {
    return `The database answers too slowly to measure its clock: half a round trip takes ${this.halfRoundTrip}, and the limit is a tenth of the lease, ${this.allowed}. Move this process closer to the database, or raise NIGHTSHIFT_LEASE.`
  }
}

/** The difference between this process's clock and the database's clock. */
export class DatabaseTime extends Context.Tag("nightshift/database/DatabaseTime")<
  DatabaseTime,
  {
    /** How far the database's clock is ahead of this machine's. */
    readonly offsetMillis: Effect.Effect<number>
    /** Maximum error of the offset: half of the shortest round trip in the last sampling. */
    readonly uncertaintyMillis: Effect.Effect<number>
  }
>() {}

/** Maximum correction per elapsed time. Less than 1, so that the time always moves forward. */
const slewRate = 0.1

/**
 * Correction rate when the time is ahead by more than `stepMillis`: the reference was set back, or is a different
 * clock.
 */
const slowRate = 0.5

/** A difference too large to be drift. If the time is behind by more than this, it steps forward at once. */
const stepMillis = 5_000

/**
 * A time in milliseconds that follows a sampled reference clock and never runs backwards. `local` is any monotonic
 * source; `offset` is how far the reference is ahead of it.
 */
export class SlewedTime {
  private applied: number
  private target: number
  private lastLocal: number
  private lastReading = Number.NEGATIVE_INFINITY

  constructor(
    private readonly local: () => number,
    offset: number
  ) {
    this.applied = offset
    this.target = offset
    this.lastLocal = local()
  }

  /** The offset that the time converges to. */
  get offset(): number {
    return this.target
  }

  /** Sets the offset to converge to, from a new sample. */
  setOffset(offset: number): void {
    this.now()
    this.target = offset
  }

  now(): number {
    const local = this.local()
    const gap = this.target - this.applied
    const reach = Math.max(0, local - this.lastLocal) * (gap < -stepMillis ? slowRate : slewRate)
    this.applied += gap > stepMillis ? gap : Math.min(reach, Math.max(-reach, gap))
    this.lastLocal = local
    this.lastReading = Math.max(this.lastReading, local + this.applied)
    return this.lastReading
  }
}

interface Sample {
  readonly offset: number
  readonly halfRoundTrip: number
}

const samplingInterval = Duration.seconds(30)
const samplesAtOnce = 5

const origin = performance.timeOrigin

/** This machine's time from a monotonic source. NTP or an operator can set the wall clock back. */
const localMillis = () => origin + performance.now()

/** The database read its clock at some point during the round trip; the midpoint is the best estimate. */
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

/** Takes the sample with the shortest round trip, which has the smallest error. */
const sample = (sql: (typeof Database.Service)["sql"]) =>
  Effect.map(Effect.replicateEffect(sampleOnce(sql), samplesAtOnce), (samples) =>
    samples.reduce((best, next) => (next.halfRoundTrip < best.halfRoundTrip ? next : best))
  )

/**
 * An Effect Clock that reads slewed time. `sleep` and nanoseconds use the machine's clock: they measure intervals,
 * which must not change when the database's clock is adjusted.
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

/** Makes Effect's Clock follow the database's time. */
export const layer: Layer.Layer<DatabaseTime, ClockTooUncertain | DatabaseError | ConfigError, Database> =
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { sql } = yield* Database
      const lease = yield* settings.lease.config
      const first = yield* patiently(sample(sql))
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
            time.setOffset(latest.offset)
            uncertainty = latest.halfRoundTrip
          })
        ),
        Effect.catchAll((error) => Effect.logDebug("could not sample the database's clock", error))
      )
      yield* Effect.forkScoped(
        repeated({ name: "clock", schedule: Schedule.spaced(samplingInterval), runAtStart: false, run: discipline })
      )

      const facts = Layer.succeed(DatabaseTime, {
        offsetMillis: Effect.sync(() => time.offset),
        uncertaintyMillis: Effect.sync(() => uncertainty)
      })
      return Layer.merge(facts, Layer.setClock(clockOver(time)))
    })
  )
