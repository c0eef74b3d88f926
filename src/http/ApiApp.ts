import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer } from "effect"
import type { JobDesk } from "../queue/JobDesk.js"
import type { JobSearch } from "../queue/JobSearch.js"
import type { Kinds } from "../queue/Kinds.js"
import type { Queue } from "../queue/Queue.js"
import type { Queues } from "../queue/QueueSettings.js"
import { Api } from "./Api.js"
import * as Auth from "./Auth.js"
import * as JobsRoutes from "./JobsRoutes.js"
import * as Problem from "./Problem.js"
import * as QueuesRoutes from "./QueuesRoutes.js"
import { DatabaseOff } from "./RequestErrors.js"
import { ServerConfig } from "./ServerConfig.js"

/** Everything under `/api`, to be served by the Server. It asks who comes before it looks at what they want. */
export class ApiApp extends Context.Tag("nightshift/http/ApiApp")<ApiApp, HttpApp.Default>() {
  static readonly layer: Layer.Layer<ApiApp, never, ServerConfig | Queue | Queues | JobDesk | JobSearch | Kinds> =
    Layer.suspend(() => withDatabase)

  /** For a process that runs without a database by choice: says so to whoever asks. */
  static readonly layerWithoutDatabase: Layer.Layer<ApiApp, never, ServerConfig> = Layer.effect(
    ApiApp,
    Effect.map(ServerConfig, (config) =>
      Auth.checkHost(config).pipe(Effect.zipRight(new DatabaseOff()), Effect.catchAll(Problem.answer))
    )
  )
}

const contract = HttpApiBuilder.api(Api).pipe(Layer.provide([JobsRoutes.layer, QueuesRoutes.layer]))

const openApi = HttpApiBuilder.middlewareOpenApi({ path: "/api/v1/openapi.json" })

// Inside of the contract's app, which would answer what fits no schema in a form of its own.
const problems = HttpApiBuilder.middleware(Effect.catchAllCause(Problem.answerCause))

const withDatabase = Layer.effect(
  ApiApp,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    const app = yield* HttpApiBuilder.httpApp
    const platform = yield* Effect.context<Layer.Layer.Success<typeof NodeHttpServer.layerContext>>()
    return Auth.checkHost(config).pipe(
      Effect.zipRight(Auth.checkToken(config)),
      Effect.zipRight(Effect.provide(app, platform)),
      Effect.catchAll(Problem.answer)
    )
  })
).pipe(
  Layer.provide(openApi),
  Layer.provide(problems),
  Layer.provide(contract),
  Layer.provide([HttpApiBuilder.Router.Live, HttpApiBuilder.Middleware.layer, NodeHttpServer.layerContext])
)
