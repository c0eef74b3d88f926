import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import { defaults, type ScheduleDefinition } from "../../src/schedule/ScheduleDefinition.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SchedulesPg from "../../src/schedule/SchedulesPg.js"
import { TickOutcome } from "../../src/schedule/TickOutcome.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = SchedulesPg.layer.pipe(
  Layer.provide(Hints.layer),
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(TestDatabase.layer)
)

const nightly: ScheduleDefinition = {
  ...defaults,
  name: "nightly",
  kind: "report\u001b[31m",
  payload: {},
  cron: "30 2 * * *",
  timezone: "Europe/Paris",
  queue: undefined,
  attempts: undefined
}

const workplace = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const env = { DATABASE_URL: Redacted.value(yield* DatabaseUrl) }
  return { run: (...args: ReadonlyArray<string>) => Nightshift.call(["schedules", ...args], { cwd, env }) }
})

describe("nightshift schedules", () => {
  it.scopedLive("prints what was done before the database failed", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const schedules = yield* Schedules
      for (const name of ["a", "b", "c"]) yield* schedules.create({ ...nightly, name, kind: name })
      const { sql } = yield* Database
      yield* sql`create function fail() returns trigger language plpgsql as
        $$ begin raise exception 'connection lost' using errcode = '08006'; end $$`
      yield* sql`create trigger fail before insert on nightshift.job for each row when (new.kind = 'b') execute function fail()`
      const { code, stderr, stdout } = yield* run("trigger", "a", "b", "c", "--json")
      expect({ code, printed: JSON.parse(stdout) }).toEqual({
        code: 1,
        printed: [
          { name: "a", schedule: expect.objectContaining({ name: "a" }), error: null },
          { name: "b", schedule: null, error: expect.objectContaining({ tag: "DatabaseUnavailable" }) },
          { name: "c", schedule: null, error: expect.objectContaining({ tag: "NotAttempted" }) }
        ]
      })
      expect(stderr).toMatch(/connection lost/)
      expect(stderr).toMatch(/^nightshift: c was not attempted after the failure of b\.$/m)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("lists schedules as text and as JSON, and says why one cannot fire", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      expect(yield* run("list")).toMatchObject({ code: 0, stdout: "No schedules.\n" })
      const schedules = yield* Schedules
      yield* schedules.create(nightly)
      const { sql } = yield* Database
      yield* sql`insert into nightshift.schedule (name, kind, payload, cron, paused, last_error, created_at, updated_at)
        values ('odd', 'k', '{}', 'nonsense', true, 'no such day', '2026-01-01', '2026-01-01')`
      const table = yield* run("list")
      const [heading, , first, second] = table.stdout.split("\n")
      expect(heading).toMatch(/^NAME +STATE +CRON +TIMEZONE +KIND +LAST +NEXT +DESCRIPTION$/)
      expect(first).toMatch(
        /^nightly +on +30 2 \* \* \* +Europe\/Paris +report\\u\{1b\}\[31m +- +in \d+ (h|min|s)( \d+ (min|s))? +at 02:30 every day, Europe\/Paris$/
      )
      expect(second).toMatch(/^odd +broken +nonsense +UTC +k +- +- +-$/)
      expect(table.stdout).toContain("\nodd cannot fire: no such day\n")
      const json = yield* run("list", "--json")
      expect(JSON.parse(json.stdout)).toMatchObject({
        schedules: [
          { name: "nightly", cron: "30 2 * * *", words: "at 02:30 every day, Europe/Paris" },
          { name: "odd", words: null, lastError: "no such day" }
        ]
      })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("shows the next runs in the schedule's time zone and in UTC", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      yield* Effect.flatMap(Schedules, (schedules) => schedules.create({ ...nightly, paused: true }))
      const table = yield* run("next", "nightly")
      const [words, , heading, , ...rows] = table.stdout.split("\n")
      expect(words).toBe("at 02:30 every day, Europe/Paris")
      expect(heading).toMatch(/^IN EUROPE\/PARIS +IN UTC +WHEN$/)
      expect(rows[0]).toMatch(
        /^\d{4}-\d\d-\d\dT0[23]:30:00\+0[12]:00 +\d{4}-\d\d-\d\dT\d\d:30:00\.000Z +in \d+ (h|min|s)( \d+ (min|s))?$/
      )
      expect(rows.slice(0, 10).every((row) => row.includes("T0"))).toBe(true)
      expect(table.stdout).toMatch(/paused and will not fire\.\n$/)
      const json = yield* run("next", "nightly", "--count", "2", "--json")
      expect(JSON.parse(json.stdout)).toMatchObject({ name: "nightly", timezone: "Europe/Paris", words })
      expect(JSON.parse(json.stdout).next).toHaveLength(2)
      const missing = yield* run("next", "nobody")
      expect(missing).toMatchObject({
        code: 1,
        stderr: 'nightshift: There is no schedule "nobody". Check the name with `nightshift schedules list`.\n'
      })
      expect(yield* run("next", "nightly", "--count", "0")).toMatchObject({ code: 2, stdout: "" })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("triggers, pauses and resumes several schedules; a failure does not stop the rest", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const schedules = yield* Schedules
      yield* schedules.declare([nightly, { ...nightly, name: "weekly", cron: "@weekly", overlap: "skip" }])
      const triggered = yield* run("trigger", "nightly", "nobody", "weekly")
      expect(triggered).toMatchObject({
        code: 1,
        stderr: 'nightshift: There is no schedule "nobody". Check the name with `nightshift schedules list`.\n'
      })
      expect(triggered.stdout).toMatch(/^triggered nightly: [0-9a-f-]{36}\ntriggered weekly: [0-9a-f-]{36}\n$/)
      const again = yield* run("trigger", "weekly", "--json")
      expect(again.code).toBe(1)
      expect(JSON.parse(again.stdout)).toMatchObject([{ name: "weekly", error: { tag: "PreviousRunActive" } }])
      const { sql } = yield* Database
      expect(yield* sql`select meta->>'schedule' as schedule from nightshift.job order by 1`).toEqual([
        { schedule: "nightly" },
        { schedule: "weekly" }
      ])
      expect(yield* run("pause", "nightly", "weekly", "--reason", "a holiday")).toMatchObject({
        code: 0,
        stdout: "paused nightly\npaused weekly\n"
      })
      expect(yield* schedules.get("nightly")).toMatchObject({ paused: true, edited: ["paused"] })
      expect(
        yield* sql`select act, target, reason, after->'paused' as paused from nightshift.audit
        where act = 'schedule.edit' order by target`
      ).toEqual([
        { act: "schedule.edit", target: "nightly", reason: "a holiday", paused: true },
        { act: "schedule.edit", target: "weekly", reason: "a holiday", paused: true }
      ])
      expect((yield* run("history", "nightly")).stdout).toMatch(
        /^IN EUROPE\/PARIS +WHEN +OUTCOME +JOB +STATE\n[- ]+\n\S+T\S+ +(now|\d+ s ago) +triggered by cli:\S+ +[0-9a-f-]{36} +pending\n$/
      )
      const resumed = yield* run("resume", "weekly")
      expect(resumed.stdout).toMatch(/^resumed weekly, next at \d{4}-\d\d-\d\dT\d\d:00:00\.000Z\n$/)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("shows the outcome of a schedule's last ticks, as text and as JSON", () =>
    Effect.gen(function* () {
      const { run } = yield* workplace
      const schedules = yield* Schedules
      yield* schedules.create(nightly)
      expect(yield* run("history", "nightly")).toMatchObject({ stdout: "nightly has no runs yet.\n" })
      const job = (yield* makeGenerator).job(1)
      yield* schedules.note("nightly", [
        TickOutcome.Missed({ since: Date.parse("2026-01-01T01:30Z"), at: Date.parse("2026-01-03T01:30Z") }),
        TickOutcome.CaughtUp({ at: Date.parse("2026-01-04T01:30Z"), job }),
        TickOutcome.Triggered({ at: Date.parse("2026-07-04T12:00Z"), job, by: "cli:\u001b[31m" })
      ])
      const [, , ...rows] = (yield* run("history", "nightly")).stdout.split("\n")
      expect(rows.map((row) => row.replaceAll(/ {2,}/g, "  ").replace(/\d+ d( \d+ h)? ago/, "long ago"))).toEqual([
        `2026-07-04T14:00:00+02:00  long ago  triggered by cli:\\u{1b}[31m  ${job}  deleted`,
        `2026-01-04T02:30:00+01:00  long ago  caught up  ${job}  deleted`,
        "2026-01-01T02:30:00+01:00 to 2026-01-03T02:30:00+01:00  long ago  missed  -  -",
        ""
      ])
      const { sql } = yield* Database
      yield* sql`update nightshift.schedule set timezone = 'Mars/Olympus' where name = 'nightly'`
      expect((yield* run("history", "nightly")).stdout).toContain("2026-07-04T12:00:00Z")
      const json = yield* run("history", "nightly", "--json")
      expect(JSON.parse(json.stdout)).toMatchObject({
        name: "nightly",
        timezone: "Mars/Olympus",
        runs: [
          { outcome: "triggered", jobId: job, jobState: null },
          { outcome: "caughtUp", at: "2026-01-04T01:30:00.000Z" },
          { outcome: "missed", since: "2026-01-01T01:30:00.000Z" }
        ]
      })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("prints help with examples, and exits with code 2 on misuse", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const help = yield* Nightshift.call(["schedules", "next", "--help"], { cwd })
      expect(help.stdout).toContain("nightshift schedules next nightly_report")
      for (const args of [["trigger"], ["resume"], ["next"], ["frobnicate"]]) {
        expect(yield* Nightshift.call(["schedules", ...args], { cwd })).toMatchObject({ code: 2, stdout: "" })
      }
    })
  )
})
