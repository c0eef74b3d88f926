import { Duration, Effect } from "effect"
import type { DurationInput } from "../core/DurationText.js"
import { type KeyOrder, type QueueSettings, type QueueSettingsPatch, Queues } from "../queue/settings/QueueSettings.js"
import type { Engine, Ports } from "./Engine.js"
import { checkKnown, durationOf, namesOf } from "./Options.js"

type Millis<Settings> = {
  readonly [Name in keyof Settings]: Settings[Name] extends Duration.Duration ? number : Settings[Name]
}

/** The current settings of a queue. A limit that is not set is undefined; durations are in milliseconds. */
export interface QueueView
  extends Omit<QueueSettings, "revision" | "retainDone" | "retainDead" | "backoff" | "rate" | "throttledUntil"> {
  readonly retainDone: number | undefined
  readonly retainDead: number | undefined
  readonly backoff: Millis<QueueSettings["backoff"]>
  readonly rate: Millis<NonNullable<QueueSettings["rate"]>> | undefined
  /** End of the queue's cool-down. */
  readonly throttledUntil: Date | undefined
}

/** Changes to the settings of a queue. An absent field is unchanged; `null` restores the default. */
export interface QueueChange {
  readonly paused?: boolean | undefined
  readonly maxWorkers?: number | undefined
  /** Maximum number of running jobs with the same `key`, and their order. [order: none] */
  readonly perKey?: { readonly concurrency: number; readonly order?: KeyOrder | undefined } | null | undefined
  /** Maximum number of jobs that start in a period, in the whole cluster. */
  readonly rate?: { readonly jobs: number; readonly per: DurationInput } | null | undefined
  /** Maximum number of waiting jobs. Beyond it, `enqueue` rejects with QueueFullError. */
  readonly depthCap?: number | null | undefined
  /** How long done jobs are kept. */
  readonly retainDone?: DurationInput | null | undefined
  /** How long dead jobs are kept. [forever] */
  readonly retainDead?: DurationInput | null | undefined
  /** The waits of cool-downs, and of kinds without a backoff of their own. */
  readonly backoff?:
    | {
        readonly enabled?: boolean | undefined
        readonly base?: DurationInput | undefined
        readonly max?: DurationInput | undefined
      }
    | undefined
}

/** The queues of the cluster. Changes apply to all processes. */
export interface QueueAdmin {
  /** All queues, by name. */
  list(): Promise<ReadonlyArray<QueueView>>
  /** No job of the queue starts once this resolves; running jobs finish. Works before the queue has a worker. */
  pause(name: string): Promise<QueueView>
  /** Also ends a cool-down. */
  resume(name: string): Promise<QueueView>
  /** Sets the maximum number of jobs of the queue that run at a time in the whole cluster. */
  scale(name: string, maxWorkers: number): Promise<QueueView>
  /** Changes settings, all or none. Once this resolves, no job starts by the old ones. Creates a queue that is new. */
  change(name: string, change: QueueChange): Promise<QueueView>
}

const millisOf = (duration: Duration.Duration | undefined) =>
  duration === undefined ? undefined : Duration.toMillis(duration)

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

/** Applies a conversion to a value that is set: not undefined, which means unchanged, and not null, the default. */
const ifSet = <A, B>(value: A | null | undefined, convert: (value: A) => B): B | null | undefined =>
  value === undefined ? undefined : value === null ? null : convert(value)

const fields = namesOf<QueueChange>({
  paused: 0,
  maxWorkers: 0,
  perKey: 0,
  rate: 0,
  depthCap: 0,
  retainDone: 0,
  retainDead: 0,
  backoff: 0
})
const perKeyFields = namesOf<NonNullable<QueueChange["perKey"]>>({ concurrency: 0, order: 0 })
const rateFields = namesOf<NonNullable<QueueChange["rate"]>>({ jobs: 0, per: 0 })
const backoffFields = namesOf<NonNullable<QueueChange["backoff"]>>({ enabled: 0, base: 0, max: 0 })

const patchOf = (change: QueueChange): QueueSettingsPatch => {
  checkKnown(change, fields, "a setting of a queue")
  const { backoff, perKey, rate, retainDead, retainDone, ...rest } = change
  checkKnown(perKey ?? {}, perKeyFields, "a setting of a queue", "perKey.")
  checkKnown(rate ?? {}, rateFields, "a setting of a queue", "rate.")
  checkKnown(backoff ?? {}, backoffFields, "a setting of a queue", "backoff.")
  return {
    ...rest,
    perKey: ifSet(perKey, ({ concurrency, order = "none" }) => ({ concurrency, order })),
    rate: ifSet(rate, ({ jobs, per }) => ({ jobs, per: durationOf("rate.per", per) })),
    retainDone: ifSet(retainDone, (kept) => durationOf("retainDone", kept)),
    retainDead: ifSet(retainDead, (kept) => durationOf("retainDead", kept)),
    ...(backoff === undefined
      ? {}
      : {
          backoff: {
            ...(backoff.enabled === undefined ? {} : { enabled: backoff.enabled }),
            ...(backoff.base === undefined ? {} : { base: durationOf("backoff.base", backoff.base) }),
            ...(backoff.max === undefined ? {} : { max: durationOf("backoff.max", backoff.max) })
          }
        })
  }
}

const changed = (name: string, patch: QueueSettingsPatch) =>
  Effect.flatMap(Queues, (queues) => Effect.map(queues.change(name, patch), ({ after }) => viewOf(after)))

/** Only a pause creates a queue: the new one is paused until it has its settings. */
const created = (name: string, patch: QueueSettingsPatch) =>
  Effect.zipRight(changed(name, { ...patch, paused: true }), changed(name, { paused: patch.paused ?? false }))

export const make = ({ run }: Engine<Ports>): QueueAdmin => ({
  list: () => run(Effect.flatMap(Queues, (queues) => Effect.map(queues.all, (all) => all.map(viewOf)))),
  pause: (name) => run(changed(name, { paused: true })),
  resume: (name) => run(changed(name, { paused: false, throttledUntil: null })),
  scale: (name, maxWorkers) => run(changed(name, { maxWorkers })),
  change: async (name, change) => {
    const patch = patchOf(change)
    return run(Effect.catchTag(changed(name, patch), "QueueNotFound", () => created(name, patch)))
  }
})
