import { statSync } from "node:fs"
import { resolve } from "node:path"
import { type Context, Effect, Layer, Predicate, Schema, type Scope } from "effect"
import { isPromiseHandler, ofRecipe } from "../client/Handlers.js"
import type { Codec } from "../codec/Codec.js"
import * as Package from "../database/Package.js"
import { type Handler, opened } from "../handlers/Handler.js"
import type { DeclaredQueues } from "../queue/settings/QueueDeclaration.js"
import type { DeclaredRoutes } from "../queue/settings/Routes.js"
import type { DeclaredLimit } from "../rate-limits/Limit.js"
import type { Schedule } from "../schedule/Schedule.js"
import type { Log } from "../telemetry/LogSink.js"
import * as LogSink from "../telemetry/LogSink.js"
import type { Services } from "../worker/Nightshift.js"
import * as AppModule from "./AppModule.js"

/** The module given with `--app` could not be loaded or has invalid exports. */
export class AppUnusable extends Schema.TaggedError<AppUnusable>()("AppUnusable", {
  module: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Cannot load the app ${this.module}: ${this.reason}`
  }
}

/** The exports of the user's module. Its `layer`, if any, is already applied to the handlers. */
export interface App {
  readonly handlers: ReadonlyArray<Handler<Services>>
  readonly queues: DeclaredQueues
  readonly routes: DeclaredRoutes
  readonly schedules: ReadonlyArray<Schedule>
  readonly limits: ReadonlyArray<DeclaredLimit>
  /** Where log lines go. [standard error] */
  readonly log?: Log | undefined
  /** Seals what is stored. [NIGHTSHIFT_SEAL_KEYS] */
  readonly codec?: Codec | undefined
}

const isHandler = (value: unknown): value is Handler<Services> =>
  Predicate.hasProperty(value, "kind") &&
  Predicate.hasProperty(value.kind, "name") &&
  Predicate.hasProperty(value, "run") &&
  typeof value.run === "function"

/** The handler that this process runs. Nothing if the value is not a handler. */
const handlerOf = (value: unknown): Handler<Services> | undefined => {
  if (isPromiseHandler(value)) return ofRecipe(value)
  return isHandler(value) ? value : undefined
}

/** The app of a process started without `--app`. */
export const none: App = { handlers: [], queues: [], routes: {}, schedules: [], limits: [] }

type Run = Handler<Services>["run"]

/**
 * The context of the module's layer. Built when the first handler opens, shared by all, released when the last one
 * closes.
 */
type Built = Effect.Effect<Context.Context<never>, never, Scope.Scope>

const buildOnce = (layer: Layer.Layer<never, unknown>, refuse: (reason: string) => AppUnusable) =>
  Effect.map(Layer.makeMemoMap, (memoMap): Built => {
    const built = Effect.flatMap(Effect.scope, (scope) => Layer.buildWithMemoMap(layer, memoMap, scope))
    // `Handler.open` has no error channel, so a failing layer aborts startup with this message.
    return Effect.mapError(built, (error) => refuse(`its \`layer\` failed with "${textOf(error)}"`)) as unknown as Built
  })

const textOf = (error: unknown) =>
  Predicate.hasProperty(error, "message") && error.message !== "" ? String(error.message) : String(error)

/** Provides the module's layer to a handler. */
const withLayer = (handler: Handler<Services>, built: Built): Handler<Services> => {
  const open = Effect.gen(function* () {
    const context = yield* built
    const { run } = yield* Effect.provide(opened(handler), context)
    return ((payload, job) => Effect.provide(run(payload, job), context)) as Run
  })
  const run: Run = (payload, job) => Effect.scoped(Effect.flatMap(open, (inner) => inner(payload, job)))
  return { ...handler, run, open }
}

const isLimit = (value: unknown): value is DeclaredLimit =>
  Predicate.hasProperty(value, "scope") &&
  typeof value.scope === "string" &&
  Predicate.hasProperty(value, "capacity") &&
  typeof value.capacity === "number" &&
  Predicate.hasProperty(value, "rate") &&
  typeof value.rate === "number"

/** What each queue declares is checked when the worker starts. */
const isQueues = (value: unknown): value is DeclaredQueues =>
  Array.isArray(value) ? value.every((name) => typeof name === "string") : Predicate.isRecord(value)

const isRoutes = (value: unknown): value is DeclaredRoutes =>
  Predicate.isRecord(value) && Object.values(value).every((queue) => typeof queue === "string" || queue === null)

const isSchedule = (value: unknown): value is Schedule =>
  Predicate.hasProperty(value, "name") &&
  Predicate.hasProperty(value, "definition") &&
  Predicate.hasProperty(value, "fault")

const isCodec = (value: unknown): value is Codec =>
  Predicate.hasProperty(value, "seal") &&
  typeof value.seal === "function" &&
  Predicate.hasProperty(value, "open") &&
  typeof value.open === "function"

/** How a module makes a handler. */
const makers = "what job.handle(…) returned, or Handler.make with Effect"

const handlersMissing = (exported: unknown) => {
  const found = Predicate.hasProperty(exported, "handlers")
    ? "its `handlers` is not an array"
    : Predicate.hasProperty(exported, "handler")
      ? "it exports `handler`, not `handlers`"
      : "it has no export named `handlers`"
  return `${found}. Export an array of handlers, export const handlers = […], each of them ${makers}`
}

const compilerMissing =
  "the TypeScript compiler is not installed. Reinstall Nightshift with its optional dependencies, or compile the app to JavaScript"

/** Describes an import error without its stack trace. A compile error includes its location and source line. */
const importFailure = (error: unknown): string => {
  if (!(error instanceof Error)) return `loading it failed with "${String(error)}".`
  if (error.name === "CompilerMissing") return `${compilerMissing}.`
  return error.name === "CompileError"
    ? `it does not compile.\n${error.message}`
    : `loading it failed with "${error.message}".`
}

/**
 * Loads a module that exports `handlers` and optionally `queues`, `routes`, `schedules`, `limits`, `log`, `codec` and `layer`, as named
 * exports or as one default object.
 */
export const load = (module: string): Effect.Effect<App, AppUnusable> =>
  Effect.gen(function* () {
    const refuse = (reason: string) => new AppUnusable({ module, reason: `${reason}.` })
    const path = resolve(module)
    const found = statSync(path, { throwIfNoEntry: false })
    if (found?.isFile() !== true)
      return yield* refuse(`${found === undefined ? "the file does not exist" : "it is not a file"}. Correct --app`)
    const loaded: unknown = yield* Effect.tryPromise({
      try: () => AppModule.load(path, Package.typescriptHooks),
      catch: (error) => new AppUnusable({ module, reason: importFailure(error) })
    })
    const exported = AppModule.exportsOf(loaded)
    if (!Predicate.hasProperty(exported, "handlers") || !Array.isArray(exported.handlers)) {
      return yield* refuse(handlersMissing(exported))
    }
    const handlers = exported.handlers.map(handlerOf)
    const odd = handlers.indexOf(undefined)
    if (odd !== -1) return yield* refuse(`element ${odd} of its \`handlers\` is not a handler: pass ${makers}`)
    const queues = Predicate.hasProperty(exported, "queues") ? exported.queues : []
    if (!isQueues(queues))
      return yield* refuse(
        'its `queues` must be an array of names, or an object like { mail: { workers: 20, rate: "100/m" } }'
      )
    const routes = Predicate.hasProperty(exported, "routes") ? exported.routes : {}
    if (!isRoutes(routes))
      return yield* refuse('its `routes` must map kind prefixes to queues, like { "gh.": "github" }')
    const schedules: unknown = Predicate.hasProperty(exported, "schedules") ? exported.schedules : []
    if (!Array.isArray(schedules) || !schedules.every(isSchedule)) {
      return yield* refuse("its `schedules` must be an array of schedules made by Schedule.make")
    }
    const limits = Predicate.hasProperty(exported, "limits") ? exported.limits : []
    if (!Array.isArray(limits) || !limits.every(isLimit)) {
      return yield* refuse("its `limits` must be an array of limits made by RateLimit.make")
    }
    const log: unknown = Predicate.hasProperty(exported, "log") ? exported.log : undefined
    const logFault = log === undefined ? undefined : LogSink.fault(log)
    if (logFault !== undefined) return yield* refuse(`its \`log\` cannot be used: ${logFault.replace(/\.$/, "")}`)
    const codec: unknown = Predicate.hasProperty(exported, "codec") ? exported.codec : undefined
    if (codec !== undefined && !isCodec(codec))
      return yield* refuse("its `codec` must have the functions seal and open, as seal({ keys }) of nightshift/codec")
    const given = handlers.flatMap((handler) => (handler === undefined ? [] : [handler, ...(handler.also ?? [])]))
    const layer = Predicate.hasProperty(exported, "layer") ? exported.layer : undefined
    const built = Layer.isLayer(layer)
      ? yield* buildOnce(layer as unknown as Layer.Layer<never, unknown>, refuse)
      : undefined
    return {
      handlers: built === undefined ? given : given.map((handler) => withLayer(handler, built)),
      queues,
      routes,
      schedules,
      limits,
      log: log as Log | undefined,
      codec
    }
  })
