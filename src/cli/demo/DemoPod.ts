import { ConfigProvider, Effect, Layer, type Scope } from "effect"
import * as Nightshift from "../../crew/Nightshift.js"
import { DatabaseUrl } from "../../database/DatabaseUrl.js"
import { handlers } from "./DemoHandlers.js"

/** The second pod has no HTTP server, no bots and fewer queues than the first. */
const queues = ["mail", "video", "billing", "stock", "orders"]

const settings = new Map([
  ["NIGHTSHIFT_WORKER_ID", "2"],
  ["DATABASE_POOL", "4"]
])

/** Runs a second pod until the Scope closes, so that slots are split between two pods. */
export const start: Effect.Effect<void, unknown, DatabaseUrl | Scope.Scope> = Effect.gen(function* () {
  const databaseUrl = yield* DatabaseUrl
  const pod = Layer.build(Nightshift.layer({ handlers, queues, databaseUrl }))
  const given = yield* Effect.configProviderWith(Effect.succeed)
  const own = ConfigProvider.orElse(ConfigProvider.fromMap(settings), () => given)
  yield* Effect.withConfigProvider(pod, own)
})
