import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServer from "@effect/platform/HttpServer"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Context, Duration, Effect, Fiber, Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import type { Idempotency } from "../../access/Idempotency.js"
import type { SavedViews } from "../../access/SavedViews.js"
import { Sessions } from "../../access/Sessions.js"
import type { Tokens } from "../../access/Tokens.js"
import type { Leadership } from "../../cluster/Leadership.js"
import type { Pods } from "../../cluster/Pods.js"
import { Lifecycle } from "../../core/Lifecycle.js"
import type { Bots } from "../../gateway/Bots.js"
import type { Deliveries } from "../../gateway/Deliveries.js"
import type { HistoryPorts } from "../../history/HistoryPorts.js"
import type { QueuePorts } from "../../queue/QueuePorts.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { RateLimits } from "../../rate-limits/RateLimits.js"
import type { Schedules } from "../../schedule/Schedules.js"
import * as Sealer from "../../seal/Sealer.js"
import type { Storage } from "../../uploads/Storage.js"
import type { ClusterConfig } from "../../worker/ClusterConfig.js"
import type { RemoteWorkers } from "../../worker/remote/RemoteWorkers.js"
import { AccessConfig } from "../access/AccessConfig.js"
import { Attempts } from "../access/Attempts.js"
import * as Auth from "../access/Auth.js"
import { Caller, type CallerFacts, seesAll } from "../access/Caller.js"
import * as Deadline from "../access/Deadline.js"
import { ServedCell } from "../access/ServedCell.js"
import * as Throttle from "../access/Throttle.js"
import * as Problem from "../Problem.js"
import { DatabaseOff, ResponseTimeout } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"

/** Everything under `/api`. Authenticates the caller before it parses the request. */
export class ApiApp extends Context.Tag("nightshift/http/ApiApp")<ApiApp, HttpApp.Default>() {
  /** Authenticates callers by token and session cookie. */
  static readonly layer: Layer.Layer<ApiApp, never, Needs> = Layer.suspend(() => withDatabase(byToken))

  /** Leaves it to another program to authenticate callers. */
  static readonly layerFor = (identify: Auth.Identify): Layer.Layer<ApiApp, never, Needs> =>
    withDatabase(Effect.succeed(identify))

  /** For a process started without a database: every request fails with `DatabaseOff`. */
  static readonly layerWithoutDatabase: Layer.Layer<ApiApp, never, ServerConfig> = Layer.effect(
    ApiApp,
    Effect.map(ServerConfig, (config) =>
      Auth.checkHost(config).pipe(Effect.zipRight(new DatabaseOff()), Effect.catchAll(Problem.toResponse))
    )
  )
}

type Configs = ServerConfig | AccessConfig | ClusterConfig
type OtherPorts = RemoteWorkers | Schedules | RateLimits | Pods | Leadership | HistoryPorts | Storage | Tokens
type Gateway = Bots | Deliveries
type Memory = Sessions | Audit | Idempotency | SavedViews
type Needs = Configs | QueuePorts | Transactions | OtherPorts | Gateway | Memory | Lifecycle

/** Timeout of every API request. Longer than a body (60 s) and the answer to an ask (60 s), which have their own errors. */
const longestRequest = Duration.seconds(130)

/** Checks the Host header and authenticates by token or session cookie. */
const byToken = Effect.gen(function* () {
  const config = yield* ServerConfig
  const { sessionLasting } = yield* AccessConfig
  const registers = {
    sessions: yield* Sessions,
    attempts: yield* Attempts,
    lasting: sessionLasting,
    membership: yield* ServedCell
  }
  const identified = Auth.identify(config, registers)
  const identify: Auth.Identify = Effect.gen(function* () {
    yield* Auth.checkHost(config)
    const request = yield* HttpServerRequest.HttpServerRequest
    return Auth.isOpen(request) ? undefined : yield* identified
  })
  return identify
})

/** Agents share the bucket of their token, because they choose their names. Another cell has throttled what it forwards. */
const bucketOf = ({ forwarded, isAgent, role, who }: CallerFacts) =>
  isAgent === true && forwarded !== true ? `api:${role}` : who

/** Authenticates, throttles and authorizes each request. */
const guardWith = Effect.fnUntraced(function* (identify: Auth.Identify) {
  const { apiRate } = yield* AccessConfig
  const throttle = apiRate === 0 ? undefined : Throttle.make({ burst: 2 * apiRate, perSecond: apiRate })
  return <R>(app: HttpApp.Default<never, R>) =>
    Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      const caller = yield* identify
      if (caller === undefined) return yield* Effect.locally(app, Sealer.reading, "hidden")
      if (throttle !== undefined) yield* throttle.take(bucketOf(caller))
      yield* Auth.authorize(caller, request)
      const deadline = yield* Deadline.ofRequest(request)
      return yield* Effect.zipRight(Deadline.check, app).pipe(
        Effect.provideService(Deadline.Deadline, deadline),
        Effect.provideService(Caller, caller),
        Effect.locally(Sealer.reading, seesAll(caller) ? "shown" : "hidden")
      )
    })
})

/**
 * Builds the routes while the layers above wait for the database: they would take a fifth of the startup time. A
 * process that could not build them does not become ready.
 */
const lateRoutes = Effect.gen(function* () {
  const scope = yield* Effect.scope
  const built = yield* Effect.flatMap(Lifecycle, (lifecycle) => lifecycle.startsAfter("the API routes are not built"))
  const building = yield* Effect.promise(() => import("./ApiRoutes.js")).pipe(
    Effect.flatMap(({ ContractApp, layer }) =>
      Effect.map(Layer.buildWithScope(layer, scope), (context) => Context.get(context, ContractApp))
    ),
    Effect.zipLeft(built),
    Effect.tapErrorCause((cause) =>
      Effect.logError("could not build the API routes; this process does not become ready", cause)
    ),
    Effect.forkScoped
  )
  return Effect.flatten(Fiber.join(building))
})

const withDatabase = <R>(identified: Effect.Effect<Auth.Identify, never, R>) =>
  Layer.scoped(
    ApiApp,
    Effect.gen(function* () {
      const app = yield* lateRoutes
      const guarded = yield* Effect.flatMap(identified, guardWith)
      const platform = yield* Effect.context<Layer.Layer.Success<typeof HttpServer.layerContext>>()
      return guarded(Effect.provide(app, platform)).pipe(
        Effect.timeoutFail({
          duration: longestRequest,
          onTimeout: () => new ResponseTimeout({ seconds: Duration.toSeconds(longestRequest) })
        }),
        Effect.catchAll(Problem.toResponse)
      )
    })
  ).pipe(Layer.provide(Layer.merge(Attempts.layer, HttpServer.layerContext)))
