import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, Option } from "effect"
import { EventLoop } from "../../telemetry/EventLoop.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { Attempts } from "../access/Attempts.js"
import { checkHost } from "../access/Auth.js"
import { bearerOf, sameSecret } from "../access/Credentials.js"
import * as Problem from "../Problem.js"
import { ServerConfig } from "../ServerConfig.js"
import { Readiness } from "./Readiness.js"

/** Event loop delay above which the process reports itself unhealthy, so the orchestrator restarts it. */
const unhealthyDelaySeconds = 10

const healthz = Effect.gen(function* () {
  const delay = yield* Effect.flatMap(EventLoop, (loop) => loop.longestDelaySeconds)
  const healthy = delay < unhealthyDelaySeconds
  return HttpServerResponse.unsafeJson(
    { status: healthy ? "ok" : "blocked", eventLoopDelaySeconds: Number(delay.toFixed(3)) },
    { status: healthy ? 200 : 503 }
  )
})

const readyz = Effect.gen(function* () {
  yield* checkHost(yield* ServerConfig)
  const { off, ready, reasons } = yield* Effect.flatMap(Readiness, (readiness) => readiness.report)
  return HttpServerResponse.unsafeJson(
    { status: ready ? "ready" : "not ready", reasons, off },
    { status: ready ? 200 : 503 }
  )
})

const metrics = Effect.gen(function* () {
  const config = yield* ServerConfig
  yield* checkHost(config)
  if (Option.isSome(config.metricsToken)) {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { authorization } = request.headers
    const given = bearerOf(authorization) ?? ""
    const isRight = sameSecret(given, config.metricsToken.value)
    if (authorization !== undefined) {
      yield* Effect.flatMap(Attempts, (attempts) => attempts.token(request, given, isRight))
    }
    if (!isRight) {
      return Problem.respond(
        401,
        "Unauthorized",
        "/metrics requires NIGHTSHIFT_METRICS_TOKEN. Send it as `Authorization: Bearer <token>`."
      )
    }
  }
  const text = yield* Effect.flatMap(Metrics, (service) => service.render)
  return HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
})

/**
 * Routes for load balancers, orchestrators and Prometheus. `/healthz` reveals no data, so it accepts any Host header.
 */
export const router = HttpRouter.empty.pipe(
  HttpRouter.get("/healthz", healthz),
  HttpRouter.get("/readyz", Problem.catchErrors(readyz)),
  HttpRouter.get("/metrics", Problem.catchErrors(metrics))
)
