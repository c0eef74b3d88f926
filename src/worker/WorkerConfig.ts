import { Context, type Duration, Either, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import { isPlainName, plainNames } from "../core/Storable.js"
import * as JobLogs from "../queue/logs/JobLogs.js"
import * as Masking from "../telemetry/Masking.js"
import type { WrittenEnd } from "./slots/JobMetrics.js"

/** The value of NIGHTSHIFT_QUEUES for a process that runs no jobs. */
export const noQueues = "none"

const readQueues = (names: ReadonlyArray<string>) => {
  if (names.length > 1 && names.includes(noQueues)) return Either.left(`\`${noQueues}\` alone, or names of queues`)
  return names.every(isPlainName) ? Either.right(names) : Either.left(`names of ${plainNames}`)
}

export const settings = {
  queues: Setting.list(
    {
      key: "NIGHTSHIFT_QUEUES",
      about:
        "Queues that this process serves, separated by commas. `none` serves no queue: the process runs no jobs. If unset, `serve` uses `default`, the queues of the app and its kinds, the targets of its routes, and the queues of the bots file."
    },
    readQueues
  ),
  slots: Setting.integer(
    {
      key: "NIGHTSHIFT_SLOTS",
      about:
        "Maximum number of jobs of one queue that this process runs at a time, even if the queue's worker total is higher."
    },
    64,
    { min: 1, max: 64 }
  ),
  poll: Setting.duration({ key: "QUEUE_POLL", about: "Interval at which an idle process polls for jobs." }, "2s"),
  heartbeat: Setting.duration({ key: "QUEUE_HEARTBEAT", about: "Interval of the heartbeat of running jobs." }, "10s"),
  grace: Setting.duration(
    { key: "SHUTDOWN_GRACE", about: "Time that running jobs get to finish after the process is asked to stop." },
    "25s"
  )
}

/** Worker settings of a pod. */
export class WorkerConfig extends Context.Tag("nightshift/worker/WorkerConfig")<
  WorkerConfig,
  Setting.Values<typeof settings> &
    Partial<Setting.Values<typeof Masking.settings & typeof JobLogs.settings>> & {
      /** Called after the end of an attempt is written. Must not throw. */
      readonly onEnd?: ((end: WrittenEnd) => void) | undefined
    }
>() {
  static readonly layer: Layer.Layer<WorkerConfig, ConfigError> = Layer.effect(
    WorkerConfig,
    Setting.group({ ...settings, ...Masking.settings, ...JobLogs.settings })
  )
}

/** Time after an interruption before a handler that does not stop is abandoned. */
export const interruptTimeout: Duration.DurationInput = "5 seconds"
