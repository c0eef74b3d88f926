import { Context, Effect, Layer, Schema } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Handler } from "../handlers/Handler.js"
import * as Registry from "../handlers/Registry.js"
import { Kinds } from "../queue/Kinds.js"
import { isQueueName } from "../queue/NewJob.js"
import type { Queue } from "../queue/Queue.js"
import type { Queues } from "../queue/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import type { Metrics } from "../telemetry/Metrics.js"
import type { CrewConfig } from "./CrewConfig.js"
import { Deadlines } from "./Deadlines.js"
import { Finalizer } from "./Finalizer.js"
import * as Heartbeat from "./Heartbeat.js"
import * as Janitor from "./Janitor.js"
import { keep } from "./Keep.js"
import * as Lookout from "./Lookout.js"
import { Pod } from "./Pod.js"
import * as QueueGauges from "./QueueGauges.js"
import * as Supervisor from "./Supervisor.js"

/** Nothing says which queues this process serves. */
export class NoQueues extends Schema.TaggedError<NoQueues>()("NoQueues", {}) {
  override get message(): string {
    return 'No queue is declared: give `queues: ["default"]` in code, or set NIGHTSHIFT_QUEUES.'
  }
}

/** A queue's name that cannot be one. */
export class BadQueueName extends Schema.TaggedError<BadQueueName>()("BadQueueName", { name: Schema.String }) {
  override get message(): string {
    return `"${this.name}" cannot be a queue: names are 1 to 64 letters, digits, _, . or -.`
  }
}

/** The pod at work. */
export class Crew extends Context.Tag("nightshift/crew/Crew")<
  Crew,
  {
    readonly queues: ReadonlyArray<string>
    /** Whether no job is held by this pod. */
    readonly isIdle: () => boolean
  }
>() {}

export interface CrewOptions<R> {
  readonly handlers: ReadonlyArray<Handler<R>>
  readonly queues: ReadonlyArray<string>
}

type Needs = Queue | Queues | Kinds | Transactions | Wakeups | Metrics | CrewConfig | Janitor.JanitorConfig

/** Hired top to bottom; closing the Scope sends them home bottom to top: claiming stops first, the last end is written last. */
export const layer = <R>(
  options: CrewOptions<R>
): Layer.Layer<Crew, NoQueues | BadQueueName | DatabaseError, R | Needs> =>
  Layer.scoped(
    Crew,
    Effect.gen(function* () {
      const queues = [...new Set(options.queues)]
      if (queues.length === 0) return yield* new NoQueues()
      const bad = queues.find((name) => !isQueueName(name))
      if (bad !== undefined) return yield* new BadQueueName({ name: bad })
      const registry = Registry.make(options.handlers)
      yield* Effect.flatMap(Kinds, (kinds) => kinds.register(Registry.registeredKinds(registry)))
      yield* QueueGauges.watch(queues)
      yield* keep(yield* Janitor.make)
      const supervisors = new Map<string, Supervisor.Supervisor>()
      yield* keep(yield* Heartbeat.make(supervisors))
      const lookout = yield* Lookout.start(supervisors)
      for (const name of queues) {
        supervisors.set(name, yield* Supervisor.start(name, registry, lookout.ranShort))
      }
      return { queues, isIdle: () => [...supervisors.values()].every((supervisor) => supervisor.isIdle()) }
    })
  ).pipe(Layer.provide(Deadlines.layer), Layer.provide(Finalizer.layer), Layer.provide(Pod.layer))
