import { Context, Effect, ExecutionStrategy, Layer, Schema, Scope } from "effect"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import type { PodId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Signals } from "../database/Signals.js"
import type { Handler } from "../handlers/Handler.js"
import * as Registry from "../handlers/Registry.js"
import { Kinds } from "../queue/Kinds.js"
import { isQueueName } from "../queue/NewJob.js"
import type { Operations } from "../queue/Operations.js"
import type { Queue } from "../queue/Queue.js"
import { Queues } from "../queue/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import type { Metrics } from "../telemetry/Metrics.js"
import * as Cleanup from "./Cleanup.js"
import type { ClusterConfig } from "./ClusterConfig.js"
import type { CrewConfig } from "./CrewConfig.js"
import { Deadlines } from "./Deadlines.js"
import { Finalizer } from "./Finalizer.js"
import * as Heartbeat from "./Heartbeat.js"
import * as Janitor from "./Janitor.js"
import { keep } from "./Keep.js"
import { Leader } from "./Leader.js"
import * as Lookout from "./Lookout.js"
import * as OperationRunner from "./OperationRunner.js"
import { Pod } from "./Pod.js"
import { Presence } from "./Presence.js"
import * as QueueGauges from "./QueueGauges.js"
import * as Reaper from "./Reaper.js"
import * as Rebalancer from "./Rebalancer.js"
import * as Steering from "./Steering.js"
import * as Supervisor from "./Supervisor.js"
import { Supervisors } from "./Supervisors.js"

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
    readonly pod: PodId
    readonly queues: ReadonlyArray<string>
    /** Whether no job is held by this pod. */
    readonly isIdle: () => boolean
  }
>() {}

export interface CrewOptions<R> {
  readonly handlers: ReadonlyArray<Handler<R>>
  readonly queues: ReadonlyArray<string>
}

type Ports = Queue | Queues | Kinds | Operations | Transactions | Wakeups | Signals | Pods | Shares | Leadership
type Configs = CrewConfig | ClusterConfig | Janitor.JanitorConfig
type Needs = Ports | Configs | Metrics

/** Hired top to bottom; closing the Scope sends them home bottom to top. */
const hire = <R>(queues: ReadonlyArray<string>, registry: Registry.Registry<R>) =>
  Effect.gen(function* () {
    const supervisors = yield* Supervisors
    yield* QueueGauges.watch(queues)
    yield* keep(yield* Janitor.make)
    yield* keep(yield* Reaper.make)
    yield* keep(yield* Heartbeat.make)
    yield* Heartbeat.hearCancels
    yield* OperationRunner.start
    const lookout = yield* Lookout.start
    // All queues drain at the same time: the grace is one for all of them.
    const shift = yield* Scope.fork(yield* Effect.scope, ExecutionStrategy.parallel)
    for (const name of queues) {
      supervisors.set(name, yield* Scope.extend(Supervisor.start(name, registry, lookout.ranShort), shift))
    }
    yield* Steering.start
    // A leader that drains for a while lets another lead meanwhile.
    yield* Effect.provide(leadersDuties, yield* Layer.build(Leader.layer))
    const presence = yield* Presence
    yield* Effect.addFinalizer(() => presence.drain)
    const { id } = yield* Pod
    return { pod: id, queues, isIdle: () => [...supervisors.values()].every((supervisor) => supervisor.isIdle()) }
  })

/** Duties of the one pod that leads, whichever that is. */
const leadersDuties = Effect.gen(function* () {
  const leader = yield* Leader
  yield* leader.keep(yield* Rebalancer.make)
  yield* leader.keep(yield* Cleanup.make([yield* Cleanup.finishedJobs]))
})

const checked = (names: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, NoQueues | BadQueueName> =>
  Effect.gen(function* () {
    const queues = [...new Set(names)]
    if (queues.length === 0) return yield* new NoQueues()
    const bad = queues.find((name) => !isQueueName(name))
    return bad === undefined ? queues : yield* new BadQueueName({ name: bad })
  })

/** The cluster knows the kinds and queues of a pod before the pod is seen. */
const declare = <R>(queues: ReadonlyArray<string>, registry: Registry.Registry<R>) =>
  Effect.gen(function* () {
    yield* Effect.flatMap(Kinds, (kinds) => kinds.register(Registry.registeredKinds(registry)))
    yield* Effect.flatMap(Queues, (settings) => settings.declare(queues))
  })

/** A pod's row is the first to come and the last to go: until the last end of its last job is written. */
export const layer = <R>(
  options: CrewOptions<R>
): Layer.Layer<Crew, NoQueues | BadQueueName | DatabaseError, R | Needs> =>
  Layer.unwrapEffect(
    Effect.gen(function* () {
      const queues = yield* checked(options.queues)
      const registry = Registry.make(options.handlers)
      yield* declare(queues, registry)
      return Layer.scoped(Crew, hire(queues, registry)).pipe(
        Layer.provide(Deadlines.layer),
        Layer.provide(Finalizer.layer),
        Layer.provide(Presence.layer({ queues, kinds: [...registry.keys()] })),
        Layer.provide(Layer.merge(Pod.layer, Supervisors.layer))
      )
    })
  )
