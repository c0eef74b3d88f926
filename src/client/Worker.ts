import { Context, Effect, Exit, GlobalValue, Layer, Option, Scope } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { DurationInput } from "../core/DurationInput.js"
import { shown } from "../core/Storable.js"
import { Database } from "../database/Database.js"
import * as Health from "../http/server/Health.js"
import { addressOf, fault as healthFault, portMissing } from "../http/server/HealthAddress.js"
import type { HealthOptions } from "../http/server/HealthOptions.js"
import { isQueueName } from "../queue/NewJob.js"
import { namesOf } from "../queue/settings/QueueDeclaration.js"
import type { DeclaredQueues, DeclaredRoutes } from "../queue/settings/QueueLimits.js"
import { Routes } from "../queue/settings/Routes.js"
import type { DeclaredLimit } from "../rate-limits/LimitOptions.js"
import type { Schedule } from "../schedule/ScheduleSettings.js"
import * as Logging from "../telemetry/Logging.js"
import type { Log } from "../telemetry/LogSink.js"
import * as Nightshift from "../worker/Nightshift.js"
import { BadQueueName, Worker as WorkerService } from "../worker/Worker.js"
import { type Use, usedBy } from "./Connection.js"
import { ofRecipes } from "./Handlers.js"
import { checkKnown, checkLog, durationOf, namesOf as optionNames } from "./Options.js"
import type { Handler } from "./Recipe.js"
import type { Shift } from "./Shift.js"
import { ClosedError, InvalidOptionError } from "./ShiftErrors.js"
import { type OnEvent, reporting } from "./WorkerEvents.js"

// A worker of a shift: it runs handlers on the connections of the shift, and ends with it.

/** Number of workers of this process that use NIGHTSHIFT_WORKER_PORT. */
const environment = GlobalValue.globalValue("nightshift/client/environment", () => ({ users: 0 }))

/** What a worker runs, and on which queues. */
export interface WorkerOptions {
  /** What `job.handle(…)` returned. */
  readonly handlers: ReadonlyArray<Handler>
  /**
   * The queues to serve: their names, or an object with the number of workers in this process, or the limits of the whole
   * cluster, of each: `{ mail: { workers: 20, perKey: 1, rate: "100/m" } }`. [the queues of the handlers' jobs]
   */
  readonly queues?: DeclaredQueues | undefined
  /** Recurring jobs: what `job.schedule(…)` returned. */
  readonly schedules?: ReadonlyArray<Schedule> | undefined
  /** Queues by kind prefix, for kinds without a queue: `{ "gh.": "github" }`. */
  readonly routes?: DeclaredRoutes | undefined
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<DeclaredLimit> | undefined
  /** How long `stop()` waits for running jobs. [SHUTDOWN_GRACE, else 25s] */
  readonly grace?: DurationInput | undefined
  /**
   * Serves `/healthz`, `/readyz` and `/metrics` on this port: `{ port: 9090, host: "0.0.0.0" }`. One worker of a shift can do
   * this. [the port of NIGHTSHIFT_WORKER_PORT in the first worker of the process, else none]
   */
  readonly health?: HealthOptions | undefined
  /**
   * Called when a job has completed, failed, died or was cancelled in this worker, after that is stored. It is not awaited,
   * and what it throws is logged: it never affects a job.
   */
  readonly onEvent?: OnEvent | undefined
  /** Where log lines of this worker and its handlers go, like the option of `connect`. [the log of the shift] */
  readonly log?: Log | undefined
}

const workerOptions = optionNames<WorkerOptions>({
  handlers: 0,
  queues: 0,
  schedules: 0,
  routes: 0,
  limits: 0,
  grace: 0,
  health: 0,
  onEvent: 0,
  log: 0
})

const healthOptions = optionNames<HealthOptions>({ port: 0, host: 0 })

/** A worker that runs in this process until it is stopped. */
export interface Worker {
  /** The id of this process, as `pod` of its jobs shows it. */
  readonly pod: string
  /** Names of the queues that this worker serves. */
  readonly queues: ReadonlyArray<string>
  /** Address of the server that the option `health` starts. Undefined without that option. */
  readonly healthUrl: string | undefined
  /** Stops claiming, waits for running jobs up to the grace period, and returns the rest to the queue. */
  stop(): Promise<void>
  /** Calls `stop()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

const queuesOf = ({ handlers, queues }: WorkerOptions): DeclaredQueues => {
  if (queues === undefined) return handlers.map(({ kind }) => kind.queue)
  if (typeof queues !== "object" || queues === null)
    throw new InvalidOptionError(
      "queues",
      `queues must be a list of names, or an object like { mail: 20 }, got ${shown(queues)}.`
    )
  const bad = namesOf(queues).find((name) => !isQueueName(name))
  if (bad === undefined) return queues
  throw new InvalidOptionError("queues", new BadQueueName({ name: bad }).message)
}

/** Warns about handlers whose jobs go to queues that the worker does not serve: a misspelled queue runs nothing. */
const warnOfUnserved = (handlers: WorkerOptions["handlers"], served: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const routes = yield* Routes
    const routed = yield* routes.current
    const unserved = handlers.flatMap(({ kind }) => {
      const queue = (kind.routed ? routed(kind.name) : undefined) ?? kind.queue
      return served.includes(queue) ? [] : [`${kind.name} (queue "${queue}")`]
    })
    if (unserved.length === 0) return
    yield* Effect.logWarning(
      `this worker serves ${served.join(", ")}, which are not the queues of these jobs: ${unserved.join(", ")}. ` +
        "Add their queues to `queues`, unless another worker serves them."
    )
  })

/** The metrics belong to the pool, so a second server would count everything twice. */
const secondHealth =
  "Another worker of this shift serves health checks. Its metrics include this worker: remove the option health here."

const checkHealth = (health: WorkerOptions["health"]): void => {
  if (health === undefined) return
  if (typeof health !== "object" || health === null)
    throw new InvalidOptionError("health", `health must be an object like { port: 9090 }, got ${shown(health)}.`)
  checkKnown(health, healthOptions, "an option of health", "health.")
  const found = healthFault(health)
  if (found !== undefined) throw new InvalidOptionError(...found)
}

/** Reserves the server for a worker. Returns how to release it, or undefined if this worker has none. */
const reserveHealth = async ({ engine: { run }, open: used }: Use, health: WorkerOptions["health"]) => {
  const address = Option.getOrUndefined(await run(addressOf(health ?? {})))
  if (health !== undefined && address === undefined) throw new InvalidOptionError("health.port", portMissing)
  if (health !== undefined && used.hasHealth) throw new InvalidOptionError("health", secondHealth)
  const isFree = health !== undefined || !(used.hasHealth || environment.users > 0)
  if (address === undefined || !isFree) return undefined
  const users = health?.port === undefined ? 1 : 0
  used.hasHealth = true
  environment.users += users
  return () => {
    used.hasHealth = false
    environment.users -= users
  }
}

/**
 * Runs handlers in this process, on the connections of the shift, until `stop()` is called.
 *
 * @example
 * ```ts
 * import { connect, job, worker } from "nightshift/client"
 * import { z } from "zod"
 *
 * const mail = job("mail", { payload: z.object({ to: z.string() }), queue: "mail" })
 * const shift = await connect()
 * const running = await worker(shift, {
 *   handlers: [mail.handle(async ({ to }, { log }) => log.info("sent", { to }))],
 *   queues: { mail: 20 }
 * })
 * process.once("SIGTERM", () => running.stop())
 * ```
 */
export const worker = async (shift: Shift, options: WorkerOptions): Promise<Worker> => {
  const use = usedBy(shift, "worker")
  checkKnown(options ?? {}, workerOptions, "an option of worker")
  if (!Array.isArray(options?.handlers) || options.handlers.length === 0)
    throw new InvalidOptionError("handlers", "worker() needs at least one handler: { handlers: [job.handle(…)] }.")
  const handlers = ofRecipes(options.handlers)
  checkHealth(options.health)
  checkLog(options.log)
  if (options.grace !== undefined) durationOf("grace", options.grace)
  const { engine, open: used, stops } = use
  const { handlers: _, health, log, onEvent, ...rest } = options
  const run = <A, E>(effect: Effect.Effect<A, E, Nightshift.Services>, signal?: AbortSignal): Promise<A> =>
    engine.run<A, E | ConfigError>(log === undefined ? effect : Effect.provide(effect, Logging.layerOf(log)), signal)
  const queues = queuesOf(options)
  const onEnd = onEvent === undefined ? {} : { onEnd: reporting({ clock: engine.clock, run }, onEvent) }
  const plain = Nightshift.worker({ ...rest, ...onEnd, handlers, queues })
  const starting = new AbortController()
  let scope: Scope.CloseableScope | undefined
  let releaseHealth: (() => void) | undefined
  const build = async () => {
    scope = await run(Scope.make())
    releaseHealth = await reserveHealth(use, health)
    const layer: Layer.Layer<WorkerService, unknown, Nightshift.Services> =
      releaseHealth === undefined ? plain : Health.serve(health)(plain)
    const context = await run(Layer.buildWithScope(layer, scope), starting.signal)
    await run(Effect.ignore(warnOfUnserved(options.handlers, namesOf(queues))))
    return context
  }
  const built = build()
  const end = async () => {
    starting.abort(new ClosedError())
    const isBuilt = await built.then(
      () => true,
      () => false
    )
    if (scope !== undefined) await run(Scope.close(scope, Exit.void))
    releaseHealth?.()
    stops.delete(stop)
    // If other shifts use the connections, restore their normal statement timeout.
    if (isBuilt && used.users > 0) await run(Effect.flatMap(Database, ({ cancelShutdown }) => cancelShutdown))
  }
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= end())
  stops.add(stop)
  const context = await built.catch(async (error: unknown) => {
    await stop()
    throw error
  })
  const { pod, queues: served } = Context.get(context, WorkerService)
  const healthUrl = Option.getOrUndefined(Context.getOption(context, Health.Health))?.url
  return { pod, queues: served, healthUrl, stop, [Symbol.asyncDispose]: stop }
}
