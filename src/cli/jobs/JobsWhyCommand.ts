import * as Command from "@effect/cli/Command"
import { Clock, Console, Effect, Layer } from "effect"
import { ClusterConfig } from "../../crew/ClusterConfig.js"
import { explain } from "../../crew/why/Explain.js"
import type { Why } from "../../crew/why/Why.js"
import * as Instant from "../../http/Instant.js"
import * as WhyView from "../../http/jobs/WhyView.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import { printable } from "../Terminal.js"
import * as JobIdArgument from "./JobIdArgument.js"

const describe = ({ detail, reason, until }: Why, now: number): string => {
  const when = until === undefined ? "" : `, until ${Instant.format(until)} (${Age.describe(until, now)})`
  return `${reason}${when}\n${printable(detail)}`
}

export const command = Command.make(
  "why",
  { id: JobIdArgument.argument, ...CommonOptions.database, json: CommonOptions.json },
  (given) =>
    Effect.gen(function* () {
      const why = yield* explain(given.id)
      const now = yield* Clock.currentTimeMillis
      yield* Console.log(given.json ? JSON.stringify(WhyView.of(why), null, 2) : describe(why, now))
    }).pipe(
      Effect.provide(Layer.merge(QueueLayer.layerForCommand, ClusterConfig.layer)),
      Running.configured(CommonOptions.databaseFlags(given))
    )
).pipe(Command.withDescription("Explain why a job is not running and how to fix it."))
