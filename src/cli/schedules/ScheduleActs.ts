import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import { Console, Effect, type Option } from "effect"
import type { InvalidJob } from "../../core/InvalidJob.js"
import { type PreviousRunActive, trigger } from "../../crew/loops/ScheduledJobs.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Audited from "../../http/access/Audited.js"
import { Caller } from "../../http/access/Caller.js"
import * as ScheduleView from "../../http/admin/ScheduleView.js"
import * as Instant from "../../http/Instant.js"
import type { JobIdTaken, QueueFull } from "../../queue/JobErrors.js"
import type { InvalidSchedule, ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed } from "../Failure.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"

const name = Args.text({ name: "name" }).pipe(Args.withDescription("The schedule's name."))

/** Options of commands that read one schedule. */
export const oneOptions = { name, ...CommonOptions.database, json: CommonOptions.json }

/** Options of commands that act on several schedules. */
const options = {
  names: Args.atLeast(name, 1),
  ...CommonOptions.database,
  reason: Operator.reason,
  json: CommonOptions.json
}

type Refusal = ScheduleNotFound | InvalidSchedule | PreviousRunActive | InvalidJob | JobIdTaken | QueueFull

interface Given {
  readonly names: ReadonlyArray<string>
  readonly reason: Option.Option<string>
  readonly json: boolean
  readonly embedded: boolean
  readonly directory: Parameters<typeof CommonOptions.databaseFlags>[0]["directory"]
}

interface Outcome {
  readonly name: string
  readonly schedule: StoredSchedule | undefined
  readonly refusal: Refusal | undefined
}

const view = ({ name, refusal, schedule }: Outcome) => ({
  name,
  schedule: schedule === undefined ? null : ScheduleView.of(schedule),
  error: refusal === undefined ? null : { tag: refusal._tag, message: refusal.message }
})

/** An action on schedules: its implementation, audit name and message. */
export interface ScheduleAct {
  readonly name: "edit" | "trigger"
  readonly act: (name: string) => Effect.Effect<StoredSchedule, Refusal | DatabaseError, QueueLayer.QueueServices>
  readonly report: (schedule: StoredSchedule) => string
}

const seenOf = ({ name }: ScheduleAct, [before, after]: readonly [StoredSchedule, StoredSchedule]) =>
  name === "trigger"
    ? { after: ScheduleView.triggeredSummary(after) }
    : { before: ScheduleView.summaryOf(before), after: ScheduleView.summaryOf(after) }

/** Runs the action for each schedule in turn. A rejected one does not stop the others; a database error does. */
const perform = (given: Given, what: ScheduleAct) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const audited = yield* Audited.make
    const outcomes = yield* Effect.forEach(given.names, (name) => {
      const refused = (refusal: Refusal): Effect.Effect<Outcome> =>
        Effect.succeed({ name, schedule: undefined, refusal })
      return Effect.zip(schedules.get(name), what.act(name)).pipe(
        audited(`schedule.${what.name}`, name, (seen) => seenOf(what, seen)),
        Effect.tap(([, schedule]) => (given.json ? Effect.void : Console.log(what.report(schedule)))),
        Effect.map(([, schedule]): Outcome => ({ name, schedule, refusal: undefined })),
        Effect.catchTags({
          ScheduleNotFound: refused,
          InvalidSchedule: refused,
          PreviousRunActive: refused,
          InvalidJob: refused,
          JobIdTaken: refused,
          QueueFull: refused
        })
      )
    })
    if (given.json) yield* Console.log(JSON.stringify(outcomes.map(view), null, 2))
    const reasons = outcomes.flatMap(({ refusal }) => (refusal === undefined ? [] : [refusal.message]))
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  }).pipe(
    Operator.acting(given.reason),
    Effect.provide(QueueLayer.layerForCommand),
    Settings.configured(CommonOptions.databaseFlags(given))
  )

const switching = (paused: boolean) => (name: string) =>
  Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.edit(name, { paused }), ({ after }) => after))

const reportResumed = ({ name, nextFireAt }: StoredSchedule) =>
  `resumed ${name}${nextFireAt === undefined ? "" : `, next at ${Instant.format(nextFireAt)}`}`

export const resume = Command.make("resume", options, (given) =>
  perform(given, { name: "edit", act: switching(false), report: reportResumed })
).pipe(Command.withDescription("Resume schedules. They fire again from their next run on."))

export const pause = Command.make("pause", options, (given) =>
  perform(given, { name: "edit", act: switching(true), report: ({ name }) => `paused ${name}` })
).pipe(Command.withDescription("Pause schedules. They stay paused even if code declares them again."))

export const triggerNow = Command.make("trigger", options, (given) =>
  perform(given, {
    name: "trigger",
    act: (name) => Effect.flatMap(Caller, ({ who }) => trigger(name, who)),
    report: ({ lastJobId, name }) => `triggered ${name}: ${lastJobId}`
  })
).pipe(Command.withDescription("Enqueue a job of each schedule now."))
