import { Effect, Layer, Predicate } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Events } from "../queue/events/Events.js"
import type { JobAdmin } from "../queue/JobAdmin.js"
import type { JobLogs } from "../queue/logs/JobLogs.js"
import type { Queue } from "../queue/Queue.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import * as AdminFleet from "./AdminFleet.js"
import { type CellOptions, Cells, type FleetUnavailable } from "./Cells.js"
import * as EventsFleet from "./EventsFleet.js"
import type { Fleet } from "./Fleet.js"
import * as FleetConfig from "./FleetConfig.js"
import type { FleetDeclaration } from "./FleetDeclaration.js"
import * as QueueFleet from "./QueueFleet.js"

export { type CellOptions, Cells, FleetUnavailable } from "./Cells.js"
export { CellUnavailable } from "./CellUnavailable.js"
export { FleetInvalid } from "./FleetConfig.js"
export type { CellDeclaration, DividedQueue, FleetDeclaration } from "./FleetDeclaration.js"
export { type EachEnqueued, EnqueueEach } from "./QueueFleet.js"

/** The services of a fleet: those of one cell that producers use, over all cells. */
export type FleetServices = Cells | Queue | QueueFleet.EnqueueEach | Events | JobSearch | JobAdmin | JobLogs | Queues

/** Loads a fleet: a file, or its declaration. Without one, NIGHTSHIFT_FLEET or `fleet.yaml`. */
export const load = (
  declared?: string | FleetDeclaration
): Effect.Effect<Fleet, FleetConfig.FleetInvalid | ConfigError> => {
  if (declared === undefined) return FleetConfig.required
  if (Predicate.isString(declared)) return FleetConfig.existing(declared)
  return FleetConfig.parse("The option fleet", declared)
}

/**
 * The queue over all cells of a fleet, for programs that enqueue jobs. A job goes to the cell of its queue and key, and a
 * lookup to the cell that its id names. Events are published in the default cell.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Fleet, Job } from "nightshift"
 *
 * const Greet = Job.make("greet", { payload: Schema.Struct({ who: Schema.String }), queue: "mail" })
 * export const program = Greet.enqueue({ who: "Ada" }, { key: "ada" }).pipe(Effect.provide(Fleet.layer("fleet.yaml")))
 * ```
 */
export const layer = (
  declared?: string | FleetDeclaration,
  options: CellOptions = {}
): Layer.Layer<FleetServices, FleetConfig.FleetInvalid | FleetUnavailable | ConfigError> =>
  Layer.unwrapEffect(Effect.map(load(declared), (fleet) => layerOf(fleet, options)))

/** The same for a fleet that is loaded. */
export const layerOf = (fleet: Fleet, options: CellOptions = {}): Layer.Layer<FleetServices, FleetUnavailable> =>
  Layer.provideMerge(Layer.mergeAll(QueueFleet.layer, EventsFleet.layer, AdminFleet.layer), Cells.layer(fleet, options))
