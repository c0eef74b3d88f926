import { Duration } from "effect"
import type { NewJob } from "../queue/enqueue/NewJob.js"
import type { RegisteredKind } from "../queue/Kinds.js"

/** A delivery from a source whose signature is verified. */
export interface SourceDelivery {
  /** The sender's id, which is the same for redeliveries. */
  readonly id: string
  readonly event: string | undefined
  readonly body: unknown
}

/** Longer than any known sender retries. */
const redeliveryWindow = Duration.hours(72)

/** Prefix of the dedupe keys of a source's jobs. The delivery id follows. */
export const dedupePrefix = (source: string): string => `source:${source}:`

/** Makes the job for a delivery: the body is its payload; source, delivery id and event are its meta. */
export const of = (source: string, kind: RegisteredKind, { body, event, id }: SourceDelivery): NewJob => ({
  kind: kind.name,
  version: kind.version,
  queue: kind.queue,
  maxAttempts: kind.maxAttempts,
  onDead: kind.onDead,
  payload: body,
  dedupe: { key: `${dedupePrefix(source)}${id}`, scope: "retained", window: redeliveryWindow },
  meta: { source, delivery: id, ...(event === undefined ? {} : { event }) }
})
