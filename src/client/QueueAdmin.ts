import { Effect } from "effect"
import { type QueueSettings, type QueueSettingsPatch, Queues } from "../queue/settings/QueueSettings.js"
import type { Engine, Ports } from "./Engine.js"

/** The current settings of a queue. */
export interface QueueView {
  readonly name: string
  readonly paused: boolean
  /** Maximum number of its jobs that run at a time in the whole cluster. */
  readonly maxWorkers: number
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
}

const viewOf = ({ maxWorkers, name, paused }: QueueSettings): QueueView => ({ name, paused, maxWorkers })

const change = (name: string, patch: QueueSettingsPatch) =>
  Effect.flatMap(Queues, (queues) => Effect.map(queues.change(name, patch), ({ after }) => viewOf(after)))

export const make = ({ run }: Engine<Ports>): QueueAdmin => ({
  list: () => run(Effect.flatMap(Queues, (queues) => Effect.map(queues.all, (all) => all.map(viewOf)))),
  pause: (name) => run(change(name, { paused: true })),
  resume: (name) => run(change(name, { paused: false, throttledUntil: null })),
  scale: (name, maxWorkers) => run(change(name, { maxWorkers }))
})
