import { randomBytes } from "node:crypto"
import { Console, Effect, Layer, Random, Redacted } from "effect"
import { Lifecycle } from "../../core/Lifecycle.js"
import { Database } from "../../database/Database.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { DatabaseUrl } from "../../database/DatabaseUrl.js"
import { Migrations } from "../../database/Migrations.js"
import * as Package from "../../database/Package.js"
import { queuesOf } from "../../gateway/config/Declarations.js"
import { GatewayConfig } from "../../gateway/config/GatewayConfig.js"
import * as HistoryPg from "../../history/HistoryPg.js"
import { ServerConfig } from "../../http/ServerConfig.js"
import * as Server from "../../http/server/Server.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { TelegramEmulator } from "../../testing/telegram/TelegramEmulator.js"
import * as StoragePg from "../../uploads/StoragePg.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import type { App } from "../App.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Environment from "../Environment.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import { pagesLink } from "../Serve.js"
import * as ServiceClient from "../ServiceClient.js"
import * as ServiceLayer from "../ServiceLayer.js"
import * as Settings from "../Settings.js"
import * as DemoBots from "./DemoBots.js"
import * as DemoFiles from "./DemoFiles.js"
import * as DemoFinishedJobs from "./DemoFinishedJobs.js"
import { handlers } from "./DemoHandlers.js"
import * as DemoHistory from "./DemoHistory.js"
import * as DemoKinds from "./DemoKinds.js"
import * as DemoSetup from "./DemoSetup.js"
import * as DemoTraffic from "./DemoTraffic.js"

const app: App = { handlers, queues: [], routes: {}, schedules: DemoKinds.schedules, limits: DemoKinds.limits }

const greeting = (url: string, token: Redacted.Redacted, database: Redacted.Redacted) => `
Nightshift ${Package.version.text}: demo of a small web shop

  open      ${pagesLink(url, token)}
            logs you in as admin; pause, retry, edit or delete anything

  traffic   receipts (fast), videos (slow, with progress), card payments (with every type of failure), stock (throttled
            by a limit), prices (a queue with cool-down), order events (one at a time per order), notifications
            (a rate-limited queue), schedules, two bots with an emulated Telegram, uploaded and fetched files,
            two processes; also a paused queue (imports), a queue without workers (ledger) and a workspace that does
            not fetch its files (initech)
  api       curl -H 'Authorization: Bearer ${Redacted.value(token)}' ${url}/api/v1/queues
  commands  DATABASE_URL=${Redacted.value(database)} nightshift jobs list --state dead
  metrics   ${url}/metrics
  data      a temporary embedded PostgreSQL, deleted on exit

Stop it with Ctrl-C.
`

/** Writes the history from before the demo started. */
const past = Effect.zipRight(DemoFinishedJobs.write, DemoHistory.write).pipe(
  Effect.provide(
    Layer.mergeAll(HistoryPg.layer, Layer.provide(StoragePg.layer, UploadsConfig.layerDefault)).pipe(
      Layer.provide(ServiceLayer.migrated),
      Layer.provide(Migrations.layer),
      Layer.provideMerge(Database.layer),
      Layer.provide(DatabaseConfig.layer)
    )
  )
)

/** Runs all demo activity until the Scope closes. */
const runActivity = (pace: DemoTraffic.Pace, service: ServiceClient.ServiceClient) =>
  Effect.gen(function* () {
    yield* DemoSetup.setUpQueues(service)
    yield* DemoTraffic.start(pace)
    yield* DemoBots.start(service.url, pace)
    yield* DemoFiles.start(service, pace)
    yield* DemoSetup.startSecondPod
  })

const inherited = Layer.merge(Layer.effect(DatabaseUrl, DatabaseUrl), Layer.effect(ServerConfig, ServerConfig))

const served = (pace: DemoTraffic.Pace, token: Redacted.Redacted) =>
  Effect.gen(function* () {
    const { url } = yield* Server.Server
    const lifecycle = yield* Lifecycle
    yield* Console.log(greeting(url, token, yield* DatabaseUrl))
    yield* runActivity(pace, ServiceClient.make(url, token))
    yield* lifecycle.collapsed
  })

const run = (pace: DemoTraffic.Pace, token: Redacted.Redacted) =>
  Effect.gen(function* () {
    yield* Effect.withRandom(past, Random.make(pace.seed))
    const lifecycle = yield* Lifecycle
    const config = yield* GatewayConfig
    const telegram = yield* TelegramEmulator
    const queues = [...DemoKinds.queues, ...queuesOf(DemoBots.declared)]
    yield* served(pace, token).pipe(
      Effect.onExit(() => lifecycle.drain),
      Effect.scoped,
      Effect.provide(ServiceLayer.onServer(inherited, app, DemoBots.declared, queues)),
      Effect.provideService(GatewayConfig, { ...config, telegramApi: new URL(telegram.url) })
    )
  }).pipe(
    Effect.provide(ServiceLayer.throwaway),
    Effect.provide(
      Layer.mergeAll(
        TelegramEmulator.layer({ ...DemoBots.delivery, seed: pace.seed }),
        ServerConfig.layer,
        GatewayConfig.layer,
        Lifecycle.layer,
        Metrics.layer
      )
    )
  )

/** Settings that the demo overrides, whatever the environment says. */
const flagsOf = (token: Redacted.Redacted, port: number | undefined): Environment.Texts => ({
  NIGHTSHIFT_CELL: "",
  DATABASE_LISTEN_URL: "",
  DATABASE_READ_URL: "",
  HOST: "127.0.0.1",
  PORT: port?.toString(),
  NIGHTSHIFT_ADMIN_TOKEN: Redacted.value(token),
  NIGHTSHIFT_WORKER_PREFIX: "demo",
  NIGHTSHIFT_WORKER_ID: "1",
  ALLOWED_USERS: "",
  UPLOADS_JOB_KIND: DemoKinds.ScanFile.name,
  QUEUE_DONE_RETENTION: "2h",
  // Do not wait for slow jobs: the database is deleted anyway.
  SHUTDOWN_GRACE: "1s",
  // Many demo jobs die on purpose, which is logged as an error.
  LOG_LEVEL: Environment.make({}).lookUp("LOG_LEVEL") === undefined ? "fatal" : undefined
})

export const command = Command.make({
  about: "Start a demo service with sample traffic on a temporary database.",
  options: {
    port: CommonOptions.port,
    rate: Input.withDefault(
      Input.number({ min: 0.1, max: 10 }),
      1,
      "Traffic multiplier from 0.1 to 10 (default 1, about 15 jobs per second)."
    ),
    seed: Input.withDefault(
      Input.integer(),
      1,
      "Seed for orders, cards and messages (default 1). The same seed gives the same traffic."
    )
  },
  examples: {
    "nightshift demo": "start a demo with sample traffic",
    "nightshift demo --port 0 --rate 3": "use a free port and three times the traffic"
  },
  run: ({ port, ...pace }) => {
    const token = Redacted.make(randomBytes(24).toString("base64url"))
    return run(pace, token).pipe(Settings.configured(flagsOf(token, port)))
  }
})
