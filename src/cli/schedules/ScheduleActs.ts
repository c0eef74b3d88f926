import * as Args from "@effect/cli/Args"
import { Console, Effect } from "effect"
import type { InvalidJob } from "../../core/InvalidJob.js"
import type { PreviousRunActive } from "../../crew/duties/ScheduledJobs.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as ScheduleView from "../../http/steering/ScheduleView.js"
import type { JobIdTaken, QueueFull } from "../../queue/JobErrors.js"
import type { InvalidSchedule, ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed } from "../Misused.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"

const name = Args.text({ name: "name" }).pipe(Args.withDescription("The schedule's name."))

/** What a command takes that is about one schedule. */
export const oneOptions = { name, ...CommonOptions.database, json: CommonOptions.json }

/** What a command takes that does the same to several. */
export const options = { names: Args.atLeast(name, 1), ...CommonOptions.database, json: CommonOptions.json }

type Refusal = ScheduleNotFound | InvalidSchedule | PreviousRunActive | InvalidJob | JobIdTaken | QueueFull

interface Given {
  readonly names: ReadonlyArray<string>
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

/** Does it to one after the other. One that refuses does not stop the rest; a database that does not answer does. */
export const perform = (
  given: Given,
  act: (name: string) => Effect.Effect<StoredSchedule, Refusal | DatabaseError, QueueLayer.QueueServices>,
  said: (schedule: StoredSchedule) => string
) =>
  Effect.gen(function* () {
    const outcomes = yield* Effect.forEach(given.names, (name) => {
      const refused = (refusal: Refusal): Effect.Effect<Outcome> =>
        Effect.succeed({ name, schedule: undefined, refusal })
      return act(name).pipe(
        Effect.tap((schedule) => (given.json ? Effect.void : Console.log(said(schedule)))),
        Effect.map((schedule): Outcome => ({ name, schedule, refusal: undefined })),
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
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
