import { Context, Layer } from "effect"
import type { QueueRow } from "./QueueRow.js"

/** The queue table under the memory layers: rows by name. */
export class QueueTable extends Context.Tag("nightshift/queue/QueueTableMemory")<QueueTable, Map<string, QueueRow>>() {}

export const layer: Layer.Layer<QueueTable> = Layer.sync(QueueTable, () => new Map<string, QueueRow>())
