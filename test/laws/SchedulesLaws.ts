import { layer as withLayer } from "@effect/vitest"
import { Effect, type Layer } from "effect"
import type { Advance } from "./Line.js"
import { codeLaws } from "./ScheduleCodeLaws.js"
import { firingLaws } from "./ScheduleFiringLaws.js"
import { historyLaws } from "./ScheduleHistoryLaws.js"
import { operatorLaws } from "./ScheduleOperatorLaws.js"
import { type Law, open, type Ports } from "./SchedulePlan.js"

/** Laws of the schedules. All laws share the layer; each starts without schedules. */
export const schedulesLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const law: Law = (title, story) => it.effect(title, () => Effect.flatMap(open(options.advance), story))
    operatorLaws(law)
    codeLaws(law)
    firingLaws(law)
    historyLaws(law)
  })
