import { Context, Layer } from "effect"
import type { QueueRow } from "./QueueRow.js"

export class QueueTable extends Context.Tag("nightshift/queue/QueueTableMemory")<
  QueueTable,
  {
    readonly rows: Map<string, QueueRow>
    /** End of each key's cool-down, by queue. */
    readonly cooling: Map<string, Map<string, number>>
    readonly lastKey: Map<string, string>
  }
>() {}

export const layer: Layer.Layer<QueueTable> = Layer.sync(QueueTable, () => ({
  rows: new Map(),
  cooling: new Map(),
  lastKey: new Map()
}))
