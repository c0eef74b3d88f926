import { Duration, Effect } from "effect"
import { patchOf } from "../queue/settings/QueueDeclaration.js"
import type { PlainSettings, QueueLimits } from "../queue/settings/QueueLimits.js"
import { type QueueSettings, type QueueSettingsPatch, Queues } from "../queue/settings/QueueSettings.js"
import type { Engine, Ports } from "./Engine.js"
import { textOf } from "./Options.js"

/** The current settings of a queue. A limit that is not set is undefined; durations are in milliseconds. */
export interface QueueView extends PlainSettings {
  /** How long done jobs are kept, in milliseconds. Undefined means QUEUE_DONE_RETENTION. */
  readonly retainDone: number | undefined
  /** How long dead jobs are kept, in milliseconds. Undefined means forever. */
  readonly retainDead: number | undefined
  /** The queue's own backoff for retries and cool-downs, if `enabled`. Delays are in milliseconds. */
  readonly backoff: {
    /** Whether retries and cool-downs follow this backoff. */
    readonly enabled: boolean
    /** First delay, in milliseconds. Each further failure or cool-down doubles it. */
    readonly base: number
    /** Longest delay between attempts or of a cool-down, in milliseconds. */
    readonly max: number
  }
  /** Limit on job starts in the whole cluster: `jobs` in each period of `per` milliseconds. */
  readonly rate:
    | {
        /** Jobs that may start in each period. */
        readonly jobs: number
        /** Length of the period, in milliseconds. */
        readonly per: number
      }
    | undefined
  /** End of the queue's cool-down. */
  readonly throttledUntil: Date | undefined
}

/** Changes to the settings of a queue. An absent field is unchanged; `null` restores the default. */
export interface QueueChange extends QueueLimits {
  /** `true` stops new jobs of the queue until it is resumed; running jobs finish. */
  readonly paused?: boolean | undefined
}

/** The queues of the cluster. Changes apply to all processes. */
export interface QueueAdmin {
  /** All queues, by name. */
  list(): Promise<ReadonlyArray<QueueView>>
  /** No job of the queue starts once this resolves; running jobs finish. Works before the queue has a worker. */
  pause(name: string): Promise<QueueView>
  /** Lets jobs of a paused queue start again. Also ends a cool-down. */
  resume(name: string): Promise<QueueView>
  /** Sets the maximum number of jobs of the queue that run at a time in the whole cluster. */
  scale(name: string, maxWorkers: number): Promise<QueueView>
  /** Changes settings, all or none. Once this resolves, no job starts by the old ones. Creates a queue that is new. */
  change(name: string, change: QueueChange): Promise<QueueView>
}

const millisOf = (duration: Duration.Duration | undefined) =>
  duration === undefined ? undefined : Duration.toMillis(duration)

/** @internal */
export const viewOf = ({ revision: _, ...settings }: QueueSettings): QueueView => {
  const { backoff, rate, retainDead, retainDone, throttledUntil } = settings
  return {
    ...settings,
    retainDone: millisOf(retainDone),
    retainDead: millisOf(retainDead),
    backoff: { ...backoff, base: Duration.toMillis(backoff.base), max: Duration.toMillis(backoff.max) },
    rate: rate === undefined ? undefined : { ...rate, per: Duration.toMillis(rate.per) },
    throttledUntil: throttledUntil === undefined ? undefined : new Date(throttledUntil)
  }
}

const changed = (name: string, patch: QueueSettingsPatch) =>
  Effect.flatMap(Queues, (queues) => Effect.map(queues.change(name, patch), ({ after }) => viewOf(after)))

/** Only a pause creates a queue: the new one is paused until it has its settings. */
const created = (name: string, patch: QueueSettingsPatch) =>
  Effect.zipRight(changed(name, { ...patch, paused: true }), changed(name, { paused: patch.paused ?? false }))

const nameOf = (method: string, name: unknown) => textOf("name", `queues.${method}`, name)

/** @internal */
export const make = ({ run }: Engine<Ports>): QueueAdmin => ({
  list: () => run(Effect.flatMap(Queues, (queues) => Effect.map(queues.all, (all) => all.map(viewOf)))),
  pause: async (name) => run(changed(nameOf("pause", name), { paused: true })),
  resume: async (name) => run(changed(nameOf("resume", name), { paused: false, throttledUntil: null })),
  scale: async (name, maxWorkers) => run(changed(nameOf("scale", name), { maxWorkers })),
  change: async (name, change) => {
    const queue = nameOf("change", name)
    return run(
      Effect.flatMap(patchOf(change), (patch) =>
        Effect.catchTag(changed(queue, patch), "QueueNotFound", () => created(queue, patch))
      )
    )
  }
})
