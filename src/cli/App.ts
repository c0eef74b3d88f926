import { existsSync } from "node:fs"
import { register } from "node:module"
import { extname, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import { Effect, Either, Layer, Predicate, Schema } from "effect"
import type { Services } from "../crew/Nightshift.js"
import * as Package from "../database/Package.js"
import type { Handler } from "../handlers/Handler.js"
import type { DeclaredLimit } from "../limits/Limit.js"
import type { DeclaredRoutes } from "../queue/settings/Routes.js"
import type { Schedule } from "../schedule/Schedule.js"

/** The module of `--app` cannot be used. */
export class AppUnusable extends Schema.TaggedError<AppUnusable>()("AppUnusable", {
  module: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `The app ${this.module} cannot be used: ${this.reason}`
  }
}

/** What a user's module brings: its handlers, and the layer they need beyond Nightshift's own services. */
export interface App {
  readonly handlers: ReadonlyArray<Handler<Services>>
  readonly queues: ReadonlyArray<string>
  readonly routes: DeclaredRoutes
  readonly schedules: ReadonlyArray<Schedule>
  readonly limits: ReadonlyArray<DeclaredLimit>
}

const isHandler = (value: unknown): value is Handler<Services> =>
  Predicate.hasProperty(value, "kind") &&
  Predicate.hasProperty(value.kind, "name") &&
  Predicate.hasProperty(value, "run") &&
  typeof value.run === "function"

/** Without `--app`. */
export const none: App = { handlers: [], queues: [], routes: {}, schedules: [], limits: [] }

type Run = Handler<Services>["run"]

/** Everything a handler needs is in its own effect already once the module's layer is provided to it. */
const withLayer = (handler: Handler<Services>, given: unknown): Handler<Services> => {
  if (!Layer.isLayer(given)) return handler
  const layer = given as unknown as Layer.Layer<never>
  const run: Run = (payload, job) => Effect.provide(handler.run(payload, job), layer)
  const { open } = handler
  if (open === undefined) return { ...handler, run }
  // One that keeps something as long as its pod lives keeps what it needs for as long.
  const openWithLayer = Effect.flatMap(Layer.build(layer), (context) =>
    Effect.map(
      Effect.provide(open, context),
      (inner): Run =>
        (payload, job) =>
          Effect.provide(inner(payload, job), context)
    )
  )
  return { ...handler, run, open: openWithLayer }
}

const isLimit = (value: unknown): value is DeclaredLimit =>
  Predicate.hasProperty(value, "scope") &&
  typeof value.scope === "string" &&
  Predicate.hasProperty(value, "capacity") &&
  typeof value.capacity === "number" &&
  Predicate.hasProperty(value, "rate") &&
  typeof value.rate === "number"

const isRoutes = (value: unknown): value is DeclaredRoutes =>
  Predicate.isRecord(value) && Object.values(value).every((queue) => typeof queue === "string" || queue === null)

const isSchedule = (value: unknown): value is Schedule =>
  Predicate.hasProperty(value, "name") &&
  Predicate.hasProperty(value, "definition") &&
  Either.isEither(value.definition)

const typescriptExtensions = [".ts", ".mts", ".tsx"]

/** Lets Node import TypeScript from here on, with stack traces that show the lines of the source. */
const allowTypeScript = () => {
  process.setSourceMapsEnabled(true)
  register(pathToFileURL(Package.typescriptHooks).href)
}

const compilerMissing =
  "the TypeScript compiler is not installed. Reinstall Nightshift with its optional dependencies, or compile the app to JavaScript"

/** What went wrong in one sentence, without a stack trace; a file that does not compile brings its place and its line. */
const importFailure = (error: unknown): string => {
  if (!(error instanceof Error)) return `loading it failed with "${String(error)}".`
  return error.name === "CompileError"
    ? `it does not compile.\n${error.message}`
    : `loading it failed with "${error.message}".`
}

/**
 * Loads a module that exports `handlers`, and perhaps `queues`, `routes`, `schedules`, `limits` and `layer`, by name or as its
 * default.
 */
export const load = (module: string): Effect.Effect<App, AppUnusable> =>
  Effect.gen(function* () {
    const refuse = (reason: string) => new AppUnusable({ module, reason: `${reason}.` })
    const path = resolve(module)
    if (!existsSync(path)) return yield* refuse("there is no such file")
    if (typescriptExtensions.includes(extname(path))) {
      yield* Effect.try({ try: allowTypeScript, catch: () => refuse(compilerMissing) })
    }
    const loaded: unknown = yield* Effect.tryPromise({
      try: () => import(pathToFileURL(path).href),
      catch: (error) => new AppUnusable({ module, reason: importFailure(error) })
    })
    const exported =
      Predicate.hasProperty(loaded, "default") && Predicate.isRecord(loaded.default) ? loaded.default : loaded
    if (!Predicate.hasProperty(exported, "handlers") || !Array.isArray(exported.handlers)) {
      return yield* refuse("it exports no `handlers`, an array of what Handler.make returns")
    }
    const handlers: ReadonlyArray<unknown> = exported.handlers
    const odd = handlers.findIndex((handler) => !isHandler(handler))
    if (odd !== -1) return yield* refuse(`element ${odd} of its \`handlers\` was not made by Handler.make`)
    const queues = Predicate.hasProperty(exported, "queues") && Array.isArray(exported.queues) ? exported.queues : []
    const routes = Predicate.hasProperty(exported, "routes") ? exported.routes : {}
    if (!isRoutes(routes)) return yield* refuse('its `routes` is not a queue by prefix, like { "gh.": "github" }')
    const schedules: unknown = Predicate.hasProperty(exported, "schedules") ? exported.schedules : []
    if (!Array.isArray(schedules) || !schedules.every(isSchedule)) {
      return yield* refuse("its `schedules` is not an array of what Schedule.make returns")
    }
    const limits = Predicate.hasProperty(exported, "limits") ? exported.limits : []
    if (!Array.isArray(limits) || !limits.every(isLimit)) {
      return yield* refuse("its `limits` is not an array of what RateLimit.make returns")
    }
    const layer = Predicate.hasProperty(exported, "layer") ? exported.layer : undefined
    return {
      handlers: handlers.filter(isHandler).map((handler) => withLayer(handler, layer)),
      queues: queues.map(String),
      routes,
      schedules,
      limits
    }
  })
