import { Context, Layer } from "effect"
import type { QueueRow } from "./QueueRow.js"

/** The tables of queues and of their keys' turns, under the memory layers. */
export class QueueTable extends Context.Tag("nightshift/queue/QueueTableMemory")<
  QueueTable,
  {
    readonly rows: Map<string, QueueRow>
    /** Until when keys cool down, by queue. */
    readonly cooling: Map<string, Map<string, number>>
    /** The key that was served last, by queue. */
    readonly lastKey: Map<string, string>
  }
>() {}

export const layer: Layer.Layer<QueueTable> = Layer.sync(QueueTable, () => ({
  rows: new Map(),
  cooling: new Map(),
  lastKey: new Map()
}))
