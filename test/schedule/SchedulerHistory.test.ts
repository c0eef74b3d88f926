import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import { trigger } from "../../src/schedule/ScheduledJobs.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as Story from "./SchedulerStories.js"

const { create, elected, everywhere, history, jobs, passAt } = Story

/** A queue that fails every enqueue. */
const queueAway = Effect.map(Queue, (queue) => {
  const away = new DatabaseUnavailable({ detail: "cut on purpose", nothingWritten: true })
  return Queue.of({ ...queue, enqueue: () => away })
})

everywhere("the history of a schedule", (story) => {
  story("records the outcome of its ticks: fired, caught up, skipped, dropped and triggered", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ overlap: "skip" })
      const done = Effect.flatMap(jobs, (all) =>
        Effect.forEach(all, ({ finishedAt, id }) =>
          Effect.flatMap(JobAdmin, (jobAdmin) => (finishedAt === undefined ? jobAdmin.cancel(id) : Effect.void))
        )
      )
      yield* passAt("2030-01-01T03:00:00.500Z", term)
      yield* passAt("2030-01-02T03:00:00Z", term)
      yield* done
      yield* passAt("2030-01-06T04:00:00Z", term)
      yield* done
      yield* trigger("nightly", "api:admin")
      const [first, caughtUp, wanted] = yield* jobs
      expect(yield* history).toEqual([
        { _tag: "Triggered", at: Date.parse("2030-01-06T04:00Z"), job: wanted?.id, by: "api:admin" },
        { _tag: "CaughtUp", at: Date.parse("2030-01-06T03:00Z"), job: caughtUp?.id },
        { _tag: "Missed", since: Date.parse("2030-01-03T03:00Z"), at: Date.parse("2030-01-05T03:00Z") },
        { _tag: "Skipped", since: Date.parse("2030-01-02T03:00Z"), at: Date.parse("2030-01-02T03:00Z") },
        { _tag: "Fired", at: Date.parse("2030-01-01T03:00Z"), job: first?.id }
      ])
    })
  )

  story("records dropped ticks even without catch-up", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ missed: "none" })
      yield* passAt("2030-01-01T12:00:00Z", term)
      yield* passAt("2030-01-02T03:00:20Z", term)
      yield* passAt("2030-01-04T12:00:00Z", term)
      expect(yield* history).toMatchObject([
        { _tag: "Missed", since: Date.parse("2030-01-03T03:00Z"), at: Date.parse("2030-01-04T03:00Z") },
        { _tag: "Fired", at: Date.parse("2030-01-02T03:00Z") },
        { _tag: "Missed", since: Date.parse("2030-01-01T03:00Z"), at: Date.parse("2030-01-01T03:00Z") }
      ])
    })
  )

  story("records many dropped ticks in one entry, and each job in its own", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create({ missed: { all: 3 } })
      yield* passAt("2030-01-08T09:00:00Z", term)
      expect(yield* history).toMatchObject([
        { _tag: "CaughtUp", at: Date.parse("2030-01-08T03:00Z") },
        { _tag: "CaughtUp", at: Date.parse("2030-01-07T03:00Z") },
        { _tag: "CaughtUp", at: Date.parse("2030-01-06T03:00Z") },
        { _tag: "Missed", since: Date.parse("2030-01-01T03:00Z"), at: Date.parse("2030-01-05T03:00Z") }
      ])
      yield* Effect.flatMap(Schedules, (schedules) =>
        schedules.edit("nightly", { overlap: "skip", missed: { all: 9 } })
      )
      yield* passAt("2030-01-12T09:00:00Z", term)
      expect((yield* history)[0]).toEqual({
        _tag: "Skipped",
        since: Date.parse("2030-01-09T03:00Z"),
        at: Date.parse("2030-01-12T03:00Z")
      })
    })
  )

  story("records nothing for a fire that failed", () =>
    Effect.gen(function* () {
      const term = yield* elected
      yield* create()
      const failing = yield* queueAway
      const failed = yield* Effect.provideService(passAt("2030-01-05T03:00:00Z", term), Queue, failing)
      expect(failed).toMatchObject({ fired: 0, failed: 1 })
      yield* Effect.flip(passAt("2030-01-05T03:00:00Z", Story.nobodysTerm))
      expect(yield* history).toEqual([])
    })
  )

  story("records a program's trigger as made by code, and cleans a name that cannot be stored", () =>
    Effect.gen(function* () {
      yield* create()
      yield* trigger("nightly")
      yield* trigger("nightly", `n\u0000${"x".repeat(500)}`)
      const [odd, plain] = yield* history
      expect(plain).toMatchObject({ by: "code" })
      expect(odd).toMatchObject({ by: `n\ufffd${"x".repeat(98)}` })
    })
  )
})

everywhere("a schedule that is triggered", (story) => {
  story("becomes a job at once even while paused, and keeps its next time", () =>
    Effect.gen(function* () {
      yield* create({ paused: true })
      yield* Story.stepTo("2030-01-01T01:00:00Z")
      const triggered = yield* trigger("nightly")
      const [job] = yield* jobs
      expect(job).toMatchObject({
        kind: "report",
        queue: "mail",
        meta: { schedule: "nightly", triggeredAt: "2030-01-01T01:00:00.000Z" }
      })
      expect(triggered).toMatchObject({
        lastJobId: job?.id,
        lastFireAt: Date.parse("2030-01-01T01:00Z"),
        nextFireAt: Date.parse("2030-01-01T03:00Z")
      })
      yield* trigger("nightly")
      expect(yield* jobs).toHaveLength(2)
    })
  )

  story("is refused while the previous job is unfinished when runs must not overlap", () =>
    Effect.gen(function* () {
      yield* create({ overlap: "skip" })
      yield* trigger("nightly")
      const [job] = yield* jobs
      expect(yield* Effect.flip(trigger("nightly"))).toMatchObject({ _tag: "PreviousRunActive", job: job?.id })
      expect(yield* jobs).toHaveLength(1)
    })
  )

  story("fails for an unknown schedule", () =>
    Effect.gen(function* () {
      expect(yield* Effect.flip(trigger("nobody"))).toMatchObject({ _tag: "ScheduleNotFound", name: "nobody" })
    })
  )
})
