import { Clock, Duration, Effect, Option, Schedule, type Scope } from "effect"
import { Boot } from "../core/Boot.js"
import * as DurationText from "../core/DurationText.js"
import type { Loop } from "../core/Loop.js"
import { Database } from "../database/Database.js"
import { minuteOf } from "../telemetry/BucketCount.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import { Histogram } from "../telemetry/Histogram.js"
import { DatabaseHealth, type Health } from "./DatabaseHealth.js"
import { MetricsConfig } from "./MetricsConfig.js"
import { PodSamples, type Usage } from "./PodSamples.js"

/** CPU time divided by elapsed time since the last call, or since the process started. */
const cpuMeter = () => {
  let before = { user: 0, system: 0 }
  let since = 0
  return (): number => {
    const now = performance.now()
    const { system, user } = process.cpuUsage(before)
    const share = (user + system) / 1000 / Math.max(1, now - since)
    before = process.cpuUsage()
    since = now
    return share
  }
}

const shown = (seconds: number) => DurationText.format(Duration.seconds(Math.round(seconds)))

const warning = ({ blockers, jobDeadTuples, oldestTransactionSeconds }: Health) => {
  const [first] = blockers
  const who =
    first === undefined
      ? ""
      : ` (${first.what} ${first.name}${first.application === undefined ? "" : `, ${first.application}`})`
  return `a transaction has been open for ${shown(oldestTransactionSeconds)}${who} and blocks vacuum; the job table has ${jobDeadTuples} dead rows. End it; nightshift doctor shows how`
}

/** Records this process's resource usage and the database's health once a minute, and warns about vacuum blockers. */
export const make: Effect.Effect<
  Loop,
  never,
  Boot | Database | DatabaseHealth | MetricsConfig | PodSamples | Scope.Scope
> = Effect.gen(function* () {
  const database = yield* Database
  const health = yield* DatabaseHealth
  const samples = yield* PodSamples
  const { oldTransaction } = yield* MetricsConfig
  const boot = yield* Boot
  const delays = yield* (yield* EventLoop.own).watch
  const cpu = cpuMeter()
  const statements = new Histogram()
  yield* database.onStatement((_, millis) => statements.record(millis))

  const usage: Effect.Effect<Usage> = Effect.gen(function* () {
    const eventLoop = yield* delays
    return { cpu: cpu(), rssBytes: process.memoryUsage.rss(), eventLoop, pool: yield* database.poolUse }
  })

  const samplePod = Effect.gen(function* () {
    const minute = minuteOf(yield* Clock.currentTimeMillis)
    const sample = { minute, pod: boot.id, ...(yield* usage), statements: statements.sketch() }
    statements.clear()
    yield* samples.record(sample)
    return {}
  })

  const sampleDatabase = Effect.gen(function* () {
    const seen = yield* health.sample
    if (Option.isSome(seen) && seen.value.oldestTransactionSeconds > Duration.toSeconds(oldTransaction)) {
      yield* Effect.logWarning(warning(seen.value))
    }
    return {}
  })

  return {
    name: "sampler",
    about: "every minute, recording resource usage and database health",
    schedule: Schedule.spaced("1 minute"),
    runAtStart: true,
    steps: [
      { name: "process", timeout: "10 seconds", run: samplePod },
      { name: "database", timeout: "20 seconds", run: sampleDatabase }
    ]
  }
})
