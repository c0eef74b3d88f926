import { Duration, Predicate } from "effect"
import { storableText } from "../core/Storable.js"
import type { NewJob } from "../queue/enqueue/NewJob.js"
import type { RegisteredKind } from "../queue/Kinds.js"
import { kindOf, queueOf } from "./config/Declarations.js"
import { followUp } from "./dead/DeadLetters.js"
import { addresseeOf, type Update } from "./telegram/TelegramUpdate.js"

/** Backoff of a bot's job. Short, because later messages of the same chat wait behind it. */
export const ladder = [Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)] as const

export const maxAttempts = ladder.length + 1

/** Longer than Telegram retries an update, shorter than the week after which Telegram may restart update ids. */
const botWindow = Duration.hours(48)

/** Prefix of the dedupe keys of a bot's jobs. The update id follows. */
export const botDedupePrefix = (slug: string): string => `telegram:${slug}:`

/** Makes the job for an update of an async bot. Runs for every webhook, so it avoids schemas and effects. */
export const botJob = (slug: string, update: Update): NewJob => {
  const chat = addresseeOf(update)
  return {
    kind: kindOf(slug),
    version: 1,
    queue: queueOf(slug),
    payload: update,
    maxAttempts,
    key: chat === undefined ? undefined : String(chat),
    dedupe: { key: `${botDedupePrefix(slug)}${update.update_id}`, scope: "retained", window: botWindow },
    onDead: chat === undefined ? undefined : followUp(slug, chat)
  }
}

const storableValue = (value: unknown): unknown => {
  if (typeof value === "string") return storableText(value)
  if (typeof value === "number" && !Number.isFinite(value)) return null
  if (Array.isArray(value)) return value.map(storableValue)
  if (!Predicate.isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [String(storableValue(key)), storableValue(inner)])
  )
}

/** Replaces everything in an update that PostgreSQL cannot store as JSON. */
export const storableUpdate = (update: Update): Update => ({
  ...Object(storableValue(update)),
  update_id: update.update_id
})

/** A delivery from a source whose signature is verified. */
export interface SourceDelivery {
  /** The sender's id, which is the same for redeliveries. */
  readonly id: string
  readonly event: string | undefined
  readonly body: unknown
}

/** Longer than any known sender retries. */
const sourceWindow = Duration.hours(72)

/** Prefix of the dedupe keys of a source's jobs. The delivery id follows. */
export const sourceDedupePrefix = (source: string): string => `source:${source}:`

/** Makes the job for a delivery: the body is its payload; source, delivery id and event are its meta. */
export const sourceJob = (source: string, kind: RegisteredKind, { body, event, id }: SourceDelivery): NewJob => ({
  kind: kind.name,
  version: kind.version,
  queue: kind.queue,
  maxAttempts: kind.maxAttempts,
  onDead: kind.onDead,
  payload: body,
  dedupe: { key: `${sourceDedupePrefix(source)}${id}`, scope: "retained", window: sourceWindow },
  meta: { source, delivery: id, ...(event === undefined ? {} : { event }) }
})
