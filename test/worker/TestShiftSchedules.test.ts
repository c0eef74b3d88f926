import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Exit, Layer, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as Schedule from "../../src/schedule/Schedule.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import { TestShift } from "../../src/testing/TestShift.js"

const SendReport = Job.make("send_report", { payload: Schema.Struct({ day: Schema.String }), queue: "mail" })

/** Returns the time it ran. */
const Sender = Handler.make(SendReport, ({ day }, job) =>
  Effect.map(Clock.currentTimeMillis, (now) => ({ day, at: new Date(now).toISOString(), meta: job.meta }))
)

const hourly = Schedule.make("hourly_report", {
  job: SendReport,
  payload: { day: "yesterday" },
  cron: "30 * * * *",
  timezone: "Europe/Paris"
})

const results = Effect.flatMap(TestShift, (shift) => Effect.map(shift.jobs, (jobs) => jobs.map(({ result }) => result)))

describe("schedules in a shift", () => {
  it.effect("fire on time as the clock advances, and their jobs run then", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      yield* shift.advance("29 minutes")
      expect(yield* shift.jobs).toEqual([])
      yield* shift.advance("1 hour")
      const meta = (tick: string) => ({ schedule: "hourly_report", tick })
      expect(yield* results).toEqual([
        { day: "yesterday", at: "1970-01-01T00:30:00.000Z", meta: meta("1970-01-01T00:30:00.000Z") }
      ])
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Sender], schedules: [hourly] })))
  )

  it.effect("fire at a new time when an operator changes them, and not while paused", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const schedules = yield* Schedules
      yield* shift.settle
      yield* schedules.edit("hourly_report", { cron: "*/10 * * * *" })
      yield* shift.advance("25 minutes")
      expect(yield* shift.jobs).toHaveLength(2)
      yield* schedules.edit("hourly_report", { paused: true })
      yield* shift.advance("1 hour")
      expect(yield* shift.jobs).toHaveLength(2)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Sender], schedules: [hourly] })))
  )

  it.effect("continue with the pod that takes over, and keep an operator's changes", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const schedules = yield* Schedules
      yield* shift.settle
      yield* schedules.edit("hourly_report", { cron: "0 * * * *" })
      yield* shift.advance("90 minutes")
      yield* shift.crashPod
      yield* shift.advance("1 hour")
      expect((yield* shift.jobs).map(({ meta }) => Object(meta).tick)).toEqual([
        "1970-01-01T01:00:00.000Z",
        "1970-01-01T02:00:00.000Z"
      ])
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Sender], schedules: [hourly] })))
  )

  it.effect("skip a run while the previous one continues when runs must not overlap", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      yield* shift.advance("35 minutes")
      expect((yield* shift.jobs).map(({ meta }) => Object(meta).tick)).toEqual([
        "1970-01-01T00:10:00.000Z",
        "1970-01-01T00:30:00.000Z"
      ])
    }).pipe(
      Effect.provide(
        TestShift.layer({
          handlers: [Handler.make(SendReport, () => Effect.sleep("14 minutes"))],
          schedules: [
            Schedule.make("often", {
              job: SendReport,
              payload: { day: "today" },
              cron: "*/10 * * * *",
              overlap: "skip"
            })
          ]
        })
      )
    )
  )

  const refusals: ReadonlyArray<readonly [what: string, schedules: ReadonlyArray<Schedule.Schedule>, says: RegExp]> = [
    [
      "an expression that cannot fire",
      [Schedule.make("a", { job: SendReport, payload: { day: "x" }, cron: "0 0 31 2 *" })],
      /Schedule "a": cron is invalid: its day of month .* never fire/
    ],
    ["a name that is declared twice", [hourly, hourly], /Schedule "hourly_report": name is declared twice/],
    [
      "a payload that does not fit the kind",
      [
        Schedule.make("a", {
          job: Job.make("k", { payload: Schema.Struct({ n: Schema.Int }) }),
          payload: { n: 1.5 },
          cron: "@daily"
        })
      ],
      /Schedule "a": payload does not match the schema of kind "k"/
    ]
  ]
  it.effect.each(refusals)("refuse to start with %s", ([, schedules, says]) =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(TestShift.layer({ handlers: [Sender], schedules }))))
      expect(Exit.isFailure(exit) ? String(exit.cause) : "it started").toMatch(says)
    })
  )
})
