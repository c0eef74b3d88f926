import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect } from "effect"
import { previewLimits } from "../../http/admin/SchedulesContract.js"
import * as ScheduleView from "../../http/admin/ScheduleView.js"
import * as Instant from "../../http/Instant.js"
import { expressionOf } from "../../schedule/ScheduleDefinition.js"
import { Schedules } from "../../schedule/Schedules.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { UsageError } from "../UsageError.js"
import * as LocalTime from "./LocalTime.js"
import * as ScheduleActs from "./ScheduleActs.js"

const count = Options.integer("count").pipe(
  Options.withDescription(`Number of runs, up to ${previewLimits.most} (default ${previewLimits.usual}).`),
  Options.withDefault<number>(previewLimits.usual)
)

export const command = Command.make("next", { ...ScheduleActs.oneOptions, count }, (given) =>
  Effect.gen(function* () {
    if (given.count < 1 || given.count > previewLimits.most) {
      return yield* new UsageError({
        message: `--count must be between 1 and ${previewLimits.most}, got ${given.count}.`
      })
    }
    yield* Effect.gen(function* () {
      const schedules = yield* Schedules
      const schedule = yield* schedules.get(given.name)
      const { enabled, name, timezone } = schedule
      const expression = yield* expressionOf(schedule)
      const now = yield* Clock.currentTimeMillis
      const next = expression.preview(now, given.count)
      const { words } = ScheduleView.of(schedule)
      if (given.json) {
        return yield* Console.log(JSON.stringify({ name, timezone, words, next: next.map(Instant.format) }, null, 2))
      }
      const rows = next.map((at) => [LocalTime.format(at, timezone), Instant.format(at), Age.describe(at, now)])
      yield* Console.log(`${words}\n`)
      yield* Console.log(Table.render([`IN ${timezone.toUpperCase()}`, "IN UTC", "WHEN"], rows))
      if (!enabled) yield* Console.log("\nThe schedule is disabled and will not fire.")
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Show the next runs of a schedule."))
