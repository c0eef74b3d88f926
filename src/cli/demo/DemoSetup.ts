import { ConfigProvider, Effect, Layer, type Scope } from "effect"
import { DatabaseUrl } from "../../database/DatabaseUrl.js"
import * as Nightshift from "../../worker/Nightshift.js"
import type { RequestFailed, ServiceClient } from "../ServiceClient.js"
import { handlers } from "./DemoHandlers.js"

// Operator actions that set up the demo. They go through the API so that they appear in the audit log.

const queueSettings = [
  { queue: "imports", reason: "supplier sends duplicates", body: { paused: true, limits: { depthCap: 40 } } },
  {
    queue: "push",
    reason: "push service allows 3 requests per second",
    body: { limits: { rate: { jobs: 3, per: "1s" } } }
  },
  {
    queue: "orders",
    reason: "events of an order must run in sequence",
    body: { limits: { perKey: { concurrency: 1, order: "serial" } } }
  },
  { queue: "video", reason: "each job uses a full core", body: { maxWorkers: 4 } },
  { queue: "mail", reason: "short jobs", body: { maxWorkers: 20 } },
  { queue: "billing", reason: "accounting reviews failures monthly", body: { retainDead: "30d" } },
  {
    queue: "prices",
    reason: "server returns 429 under load",
    body: { backoff: { enabled: true, base: "8s", max: "60s" } }
  }
]

export const setUpQueues = (service: ServiceClient): Effect.Effect<void, RequestFailed> =>
  Effect.gen(function* () {
    for (const { body, queue, reason } of queueSettings) {
      yield* service.ask("PATCH", `/api/v1/queues/${queue}`, { body, reason })
    }
    yield* service.ask("PATCH", "/api/v1/limits/map_tiles", {
      body: { capacity: 300 },
      reason: "expected peak at month end"
    })
    yield* service.ask("POST", "/api/v1/schedules", {
      body: { name: "spring_sale", kind: "build_report", payload: { name: "sale" }, cron: "0 9 20 3 *" },
      reason: "requested by marketing"
    })
    yield* service.ask("POST", "/api/v1/schedules/stock_report/trigger", { reason: "test run" })
  })

/** The second pod has no HTTP server, no bots and fewer queues than the first. */
const queues = ["mail", "video", "billing", "stock", "orders"]

const podSettings = new Map([
  ["NIGHTSHIFT_WORKER_ID", "2"],
  ["DATABASE_POOL", "4"]
])

/** Runs a second pod until the Scope closes, so that slots are split between two pods. */
export const startSecondPod: Effect.Effect<void, unknown, DatabaseUrl | Scope.Scope> = Effect.gen(function* () {
  const databaseUrl = yield* DatabaseUrl
  const pod = Layer.build(Nightshift.layer({ handlers, queues, databaseUrl }))
  const given = yield* Effect.configProviderWith(Effect.succeed)
  const own = ConfigProvider.orElse(ConfigProvider.fromMap(podSettings), () => given)
  yield* Effect.withConfigProvider(pod, own)
})
