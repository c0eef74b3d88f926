import { Console, Duration, Effect, Layer } from "effect"
import { digestOf, shortOf } from "../../database/SubjectText.js"
import * as Eraser from "../../erasure/Eraser.js"
import { Caller } from "../../http/access/Caller.js"
import { erasedView, foundView } from "../../http/jobs/EraseRoutes.js"
import * as StoragePg from "../../uploads/StoragePg.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import { SomeFailed } from "../Failure.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import { printable, printJson, printText, table } from "../Terminal.js"

const foundRows = ({ executions, states, ...others }: Eraser.Found): ReadonlyArray<readonly [string, number]> => [
  ...Object.entries(states).map(([state, count]) => [`jobs, ${state}`, count] as const),
  ["of them executions", executions],
  ...Object.entries(others)
]

const singular: Readonly<Record<keyof Eraser.Counts, string>> = {
  jobs: "job",
  events: "event",
  batches: "batch",
  schedules: "schedule",
  uploads: "upload",
  copies: "copy",
  quotes: "quote"
}

const nounsOf = (counts: Eraser.Counts): string => {
  const names = Object.keys(singular) as ReadonlyArray<keyof Eraser.Counts>
  const erased = names.filter((name) => counts[name] > 0)
  const nouns = erased.map((name) => `${counts[name]} ${counts[name] === 1 ? singular[name] : name}`)
  return nouns.length === 0 ? "nothing" : nouns.join(", ")
}

const show = (subject: string, json: boolean, acts: boolean) =>
  Effect.gen(function* () {
    const found = yield* Eraser.find(subject)
    if (json) return yield* printJson(foundView(subject, found))
    if (Eraser.isNothing(found)) return yield* Console.log(`Nothing is stored of ${shortOf(digestOf(subject))}.`)
    const rows = foundRows(found).filter(([, count]) => count > 0)
    yield* printText(
      table(
        ["STORED", "COUNT"],
        rows.map(([name, count]) => [name, String(count)])
      )
    )
    if (acts) yield* Console.log("\nNothing was changed. Add --yes to erase it; this cannot be undone.")
  })

const erase = (given: {
  readonly subject: string
  readonly running: Eraser.WhenRunning
  readonly deadline: Duration.Duration
  readonly json: boolean
}) =>
  Effect.gen(function* () {
    const { reason, who } = yield* Caller
    const pass = yield* Eraser.eraseUntil(given.subject, {
      running: given.running,
      deadline: Duration.toMillis(given.deadline),
      who,
      reason
    })
    if (given.json) yield* printJson(erasedView(given.subject, pass))
    else yield* Console.log(`erased ${nounsOf(pass.erased)}`)
    if (pass.done) {
      if (!given.json && Eraser.totalOf(pass.erased) > 0)
        yield* Console.log(
          "Dead row versions and planner statistics stay until the next vacuum analyze, and backups as long as you keep them."
        )
      return
    }
    const open = pass.unfinished.map(
      ({ execution, id, kind, running }) =>
        `${printable(execution ?? kind)} (job ${id}) ${running ? "runs" : "has not ended"}: its data is still stored.`
    )
    return yield* new SomeFailed({
      reasons: [
        ...open,
        `Run the command again when these jobs have ended, with a longer --deadline, or with --running skip. An execution ends at once with \`nightshift workflows cancel <id> --now\`.`
      ]
    })
  })

export const command = QueueCommand.make({
  about: "Erase the data of a subject from jobs, executions, events, batches, schedules and uploads.",
  options: {
    subject: Input.required(Input.text, "Whose data, as it was passed to enqueue, start and publish: customer:42."),
    dryRun: Input.flag("Only show what is stored."),
    yes: Input.flag("Erase. Without it, the command only shows what is stored."),
    running: Input.withDefault<Eraser.WhenRunning, Eraser.WhenRunning>(
      Input.choice(Eraser.WhenRunning.literals),
      "cancel",
      "Jobs that have not ended: cancel them and wait, or skip them (default cancel)."
    ),
    deadline: Input.withDefault<Duration.Duration, Duration.Duration>(
      Input.duration,
      Duration.minutes(1),
      "How long to wait for jobs that run (default 1m)."
    ),
    reason: Operator.reason
  },
  examples: {
    "nightshift erase --subject customer:42": "show what is stored about a customer",
    "nightshift erase --subject customer:42 --yes --reason 'request 1234'": "erase it"
  },
  run: ({ dryRun, reason, subject, yes, ...given }) =>
    (dryRun || !yes ? show(subject, given.json, !dryRun) : erase({ subject, ...given })).pipe(
      Operator.acting(reason),
      Effect.provide(Layer.provide(StoragePg.layer, UploadsConfig.layerDefault))
    )
})
