import { resolve } from "node:path"
import { Console, DateTime, Effect, identity, Layer, Option, Redacted } from "effect"
import * as DurationText from "../core/DurationText.js"
import { Lifecycle } from "../core/Lifecycle.js"
import { address } from "../database/DatabaseUrl.js"
import * as Package from "../database/Package.js"
import * as FleetConfig from "../fleet/FleetConfig.js"
import * as BotsFile from "../gateway/config/BotsFile.js"
import { queuesOf as botQueuesOf, type Declarations } from "../gateway/config/Declarations.js"
import { GatewayConfig } from "../gateway/config/GatewayConfig.js"
import * as CmdExecConfig from "../handlers/CmdExecConfig.js"
import * as NoopEcho from "../handlers/NoopEcho.js"
import { ServerConfig } from "../http/ServerConfig.js"
import * as Server from "../http/server/Server.js"
import { namesOf } from "../queue/settings/QueueDeclaration.js"
import * as RouteConfig from "../queue/settings/RouteConfig.js"
import { isForPeople, settings } from "../telemetry/LogConfig.js"
import * as Logging from "../telemetry/Logging.js"
import * as LogLine from "../telemetry/LogLine.js"
import { Metrics } from "../telemetry/Metrics.js"
import { noQueues, WorkerConfig } from "../worker/WorkerConfig.js"
import * as App from "./App.js"
import * as CodeCache from "./CodeCache.js"
import { DatabaseChoice, type StartedDatabase } from "./DatabaseChoice.js"
import * as ServiceLayer from "./ServiceLayer.js"

/** The running service, for the greeting. */
interface Started {
  readonly url: string
  readonly choice: DatabaseChoice
  readonly declared: Declarations
  readonly served: ReadonlyArray<string>
  /** The admin token, if the process generated it. */
  readonly made: Option.Option<Redacted.Redacted>
  readonly hasToken: boolean
  /** The cell of the fleet, if it was chosen. */
  readonly cell: Option.Option<string>
}

const tokenFileOf = ({ directory }: { readonly directory: string }) => `${directory}/admin-token`

const whereDataIs = ({ cell, choice }: Pick<Started, "cell" | "choice">) =>
  DatabaseChoice.$match(choice, {
    Served: ({ url }) =>
      Option.match(cell, {
        onNone: () => "the PostgreSQL server in DATABASE_URL",
        onSome: (name) => `cell ${name} of the fleet, at ${address(url)}`
      }),
    Embedded: ({ directory }) => `embedded PostgreSQL in ${directory}`,
    None: () => "none: queues, workers and uploads are off. Set DATABASE_URL or add --embedded to enable them"
  })

const noToken = "not set: no one can log in, and the API rejects all requests. Set NIGHTSHIFT_ADMIN_TOKEN and restart"

/** Prints the admin token only if the process generated it. A configured token is never printed. */
const tokenLines = ({ choice, hasToken, made, url }: Started) =>
  choice._tag === "Embedded" && Option.isSome(made)
    ? `\n  ui       ${pagesLink(url, made.value)}\n  token    ${Redacted.value(made.value)}  (stored in ${tokenFileOf(choice)})`
    : `\n  ui       ${url}/ui/${hasToken ? "" : `\n  token    ${noToken}`}`

/** Link that opens Mission Control and logs in. Browsers never send the fragment after # to a server. */
export const pagesLink = (url: string, token: Redacted.Redacted): string =>
  `${url}/ui/#/overview?token=${encodeURIComponent(Redacted.value(token))}`

const hooksOf = (url: string, { bots, sources }: Declarations) => [
  ...bots.map((bot) => ({ hook: `${url}/hooks/telegram/${bot.slug}`, style: bot.async ? "async" : "sync" })),
  ...sources.map(({ name, style }) => ({ hook: `${url}/hooks/${name}`, style }))
]

const hooksLine = (url: string, declared: Declarations) => {
  const lines = hooksOf(url, declared).map(({ hook, style }) => `${hook} (${style})`)
  return lines.length === 0 ? "" : `\n  hooks    ${lines.join("\n           ")}`
}

const queuesText = (served: ReadonlyArray<string>) =>
  served.length === 0 ? "none: this process runs no jobs" : served.join(", ")

const title = `Nightshift ${Package.version.text} is up`

const greeting = (started: Started) => {
  const { choice, declared, served, url } = started
  return `
${title}

  url      ${url}${tokenLines(started)}
  api      ${url}/api/v1/jobs  (contract: ${url}/api/v1/openapi.json)${hooksLine(url, declared)}
  health   ${url}/healthz  ${url}/readyz
  metrics  ${url}/metrics
  data     ${whereDataIs(started)}${choice._tag === "None" ? "" : `\n  queues   ${queuesText(served)}`}

Stop it with Ctrl-C.
`
}

/** The same for programs that collect logs: one line, which can be read by others and has no token. */
export const greetingLine = (started: Started, now: DateTime.Utc) => {
  const { cell, choice, declared, hasToken, made, served, url } = started
  const hooks = hooksOf(url, declared).map(({ hook }) => hook)
  return LogLine.json({
    time: DateTime.formatIso(now),
    level: "info",
    msg: title,
    url,
    ui: `${url}/ui/`,
    data: whereDataIs(started),
    ...(Option.isSome(cell) ? { cell: cell.value } : {}),
    ...(hasToken ? {} : { token: noToken }),
    ...(choice._tag === "Embedded" && Option.isSome(made) ? { adminTokenFile: resolve(tokenFileOf(choice)) } : {}),
    ...(choice._tag === "None" ? {} : { queues: served }),
    ...(hooks.length === 0 ? {} : { hooks })
  })
}

/** Reports on standard output that the service is up. A service on its embedded PostgreSQL is a trial, so people read it. */
const announce = (started: Started) =>
  Effect.gen(function* () {
    const isTrial = started.choice._tag === "Embedded" && (yield* settings.format.config) === "auto"
    const forPeople = isTrial || (yield* isForPeople(process.stdout))
    yield* Console.log(forPeople ? greeting(started) : greetingLine(started, yield* DateTime.now))
  })

/** One of several services of this process. */
interface Part {
  /** Runs in place of the greeting. */
  readonly announced: Effect.Effect<unknown>
  /** Which queues it serves, of those of the app. */
  readonly queuesOf: (ofApp: ReadonlyArray<string>) => ReadonlyArray<string>
}

const queuesOf = (
  given: ReadonlyArray<string>,
  { handlers, queues, routes }: App.App,
  declared: Declarations,
  part: Part | undefined
): ReadonlyArray<string> => {
  if (given.length > 0) return given.filter((name) => name !== noQueues)
  const routed = Object.values(routes).filter((queue) => queue !== null)
  const ofKinds = handlers.map(({ kind }) => kind.queue)
  const pushed = declared.push.flatMap(({ queue }) => queue ?? [])
  const all = ["default", ...namesOf(queues), ...ofKinds, ...routed, ...pushed, ...botQueuesOf(declared)]
  return [...new Set(part === undefined ? all : part.queuesOf(all))]
}

const serverOf = (choice: Exclude<StartedDatabase, { readonly _tag: "None" }>) =>
  choice._tag === "Served" ? ServiceLayer.served(choice.url) : ServiceLayer.embedded(choice.server)

const serveApp = (app: App.App, choice: StartedDatabase, part: Part | undefined) =>
  Effect.gen(function* () {
    const loaded = {
      ...app,
      // Built-in kinds come first so that an app's handler for the same kind overrides them.
      handlers: [NoopEcho.handler, ...(yield* CmdExecConfig.handlers), ...app.handlers],
      routes: { ...app.routes, ...(yield* RouteConfig.declared) }
    }
    const database = choice._tag !== "None"
    const declared = yield* BotsFile.load({ database, kinds: new Set(loaded.handlers.map(({ kind }) => kind.name)) })
    const { grace, queues } = yield* WorkerConfig
    const served = database ? queuesOf(queues, loaded, declared, part) : []
    if (choice._tag === "None") {
      yield* Effect.logWarning("no database: queues, workers and uploads are off; set DATABASE_URL or add --embedded")
    }
    const configured = yield* ServerConfig
    const lifecycle = yield* Lifecycle
    const inTime = served.length === 0 ? "" : `; running jobs have up to ${DurationText.format(grace)} to finish`
    let isStarted = false
    yield* Effect.gen(function* () {
      const { url } = yield* Server.Server
      yield* Effect.raceFirst(lifecycle.untilStarted, lifecycle.collapsed)
      const { adminToken, viewerToken } = yield* ServerConfig
      const hasToken = Option.isSome(adminToken) || Option.isSome(viewerToken)
      const made = Option.isSome(configured.adminToken) ? Option.none() : adminToken
      const cell = yield* FleetConfig.settings.cell.config
      yield* part?.announced ?? announce({ url, choice, declared, served, made, hasToken, cell })
      isStarted = true
      // By then, the first requests and the first rounds of the loops have compiled their code.
      yield* Effect.fork(Effect.delay(Effect.sync(CodeCache.save), "3 seconds"))
      yield* lifecycle.collapsed
    }).pipe(
      Effect.onExit(() => Effect.zipRight(lifecycle.drain, Effect.logInfo(`shutting down${inTime}`))),
      Effect.provide(
        choice._tag === "None"
          ? ServiceLayer.alone(declared)
          : ServiceLayer.onServer(serverOf(choice), loaded, declared, served)
      ),
      Effect.onExit(() => (isStarted ? Effect.logInfo("stopped") : Effect.void))
    )
  })

/** Serves until interrupted. Then reports not ready, waits for running jobs, and closes layers in reverse order. */
export const serve = (module: string | undefined, choice: StartedDatabase, part?: Part) =>
  Effect.gen(function* () {
    const app = module === undefined ? App.none : yield* App.load(module)
    yield* serveApp(app, choice, part).pipe(app.log === undefined ? identity : Effect.provide(Logging.layerOf(app.log)))
  }).pipe(
    Effect.provide(
      Layer.mergeAll(ServerConfig.layer, GatewayConfig.layer, WorkerConfig.layer, Lifecycle.layer, Metrics.layer)
    )
  )
