import { Duration } from "effect"
import type { NewJob } from "../queue/enqueue/NewJob.js"
import type { RegisteredKind } from "../queue/Kinds.js"

/** What a source has sent, its signature checked. */
export interface SourceDelivery {
  /** What the sender calls it, the same again when it is sent again. */
  readonly id: string
  readonly event: string | undefined
  readonly body: unknown
}

/** Longer than any sender we know of tries to deliver. */
const redeliveryWindow = Duration.hours(72)

/** What the dedupe keys of a source's jobs begin with; the delivery's id follows. */
export const dedupePrefix = (source: string): string => `source:${source}:`

/** The job that a delivery becomes: the body is its payload, and what came beside it stands in its meta. */
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
