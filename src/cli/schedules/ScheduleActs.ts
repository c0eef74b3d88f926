import { Effect } from "effect"
import type { InvalidJob } from "../../core/InvalidJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Audited from "../../http/access/Audited.js"
import { Caller } from "../../http/access/Caller.js"
import * as ScheduleView from "../../http/admin/ScheduleView.js"
import * as Instant from "../../http/Instant.js"
import type { JobIdTaken, QueueFull } from "../../queue/JobErrors.js"
import { type PreviousRunActive, trigger } from "../../schedule/ScheduledJobs.js"
import type { InvalidSchedule, ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import { actOnEach } from "../ActOnEach.js"
import type * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import type { QueueServices } from "../QueueLayer.js"

type Refusal = ScheduleNotFound | InvalidSchedule | PreviousRunActive | InvalidJob | JobIdTaken | QueueFull

/** An action on schedules: its implementation, audit name and message. */
interface ScheduleAct {
  readonly name: "edit" | "trigger"
  readonly act: (name: string) => Effect.Effect<StoredSchedule, Refusal | DatabaseError, QueueServices>
  readonly report: (schedule: StoredSchedule) => string
}

const auditSummary = ({ name }: ScheduleAct, [before, after]: readonly [StoredSchedule, StoredSchedule]) =>
  name === "trigger"
    ? { after: ScheduleView.triggeredSummary(after) }
    : { before: ScheduleView.summaryOf(before), after: ScheduleView.summaryOf(after) }

const perform = (what: ScheduleAct, names: ReadonlyArray<string>, json: boolean) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const audited = yield* Audited.make
    yield* actOnEach(names, json, {
      act: (name) =>
        Effect.zip(schedules.get(name), what.act(name)).pipe(
          audited(`schedule.${what.name}`, name, (seen) => auditSummary(what, seen)),
          Effect.map(([, after]) => after)
        ),
      report: what.report,
      view: (name, schedule) => ({ name, schedule: schedule === undefined ? null : ScheduleView.of(schedule) })
    })
  })

const command = (about: string, examples: Command.Examples, what: ScheduleAct) =>
  QueueCommand.make({
    about,
    args: { name: Input.several(Input.text, "The schedule's name.") },
    options: { reason: Operator.reason },
    examples,
    run: ({ json, name, reason }) => Operator.acting(reason)(perform(what, name, json))
  })

const switching = (paused: boolean) => (name: string) =>
  Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.edit(name, { paused }), ({ after }) => after))

const reportResumed = ({ name, nextFireAt }: StoredSchedule) =>
  `resumed ${name}${nextFireAt === undefined ? "" : `, next at ${Instant.format(nextFireAt)}`}`

export const resume = command(
  "Resume schedules. Each fires again at its next run.",
  { "nightshift schedules resume nightly_report": "resume it; it fires at its next run" },
  { name: "edit", act: switching(false), report: reportResumed }
)

export const pause = command(
  "Pause schedules. They stay paused even if code declares them again.",
  { "nightshift schedules pause nightly_report": "pause it, even if code declares it" },
  { name: "edit", act: switching(true), report: ({ name }) => `paused ${name}` }
)

export const triggerNow = command(
  "Enqueue a job of each schedule now.",
  { "nightshift schedules trigger nightly_report": "enqueue its job now" },
  {
    name: "trigger",
    act: (name) => Effect.flatMap(Caller, ({ who }) => trigger(name, who)),
    report: ({ lastJobId, name }) => `triggered ${name}: ${lastJobId}`
  }
)
