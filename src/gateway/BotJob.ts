import { Duration, Predicate } from "effect"
import type { NewJob } from "../queue/enqueue/NewJob.js"
import { kindOf, queueOf } from "./config/Declarations.js"
import * as DeadLetterKind from "./dead/DeadLetterKind.js"
import { addresseeOf, type Update } from "./telegram/TelegramUpdate.js"

/** Waits between the attempts of a bot's job: short, because its chat may be waiting behind it. */
export const ladder = [Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)] as const

/** One attempt more than there are waits. */
export const maxAttempts = ladder.length + 1

/** Longer than Telegram tries to deliver an update, shorter than the week after which its ids may begin anew. */
const redeliveryWindow = Duration.hours(48)

/** What the dedupe keys of a bot's jobs begin with; the update's id follows. */
export const dedupePrefix = (slug: string): string => `telegram:${slug}:`

/** The job that an update of an async bot becomes. Plain: every webhook passes here. */
export const of = (slug: string, update: Update): NewJob => {
  const chat = addresseeOf(update)
  return {
    kind: kindOf(slug),
    version: 1,
    queue: queueOf(slug),
    payload: update,
    maxAttempts,
    key: chat === undefined ? undefined : String(chat),
    dedupe: { key: `${dedupePrefix(slug)}${update.update_id}`, scope: "retained", window: redeliveryWindow },
    onDead: chat === undefined ? undefined : DeadLetterKind.followUp(slug, chat)
  }
}

const halfPair = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g

const storableValue = (value: unknown): unknown => {
  if (typeof value === "string") return value.replaceAll("\u0000", "\ufffd").replace(halfPair, "\ufffd")
  if (typeof value === "number" && !Number.isFinite(value)) return null
  if (Array.isArray(value)) return value.map(storableValue)
  if (!Predicate.isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [String(storableValue(key)), storableValue(inner)])
  )
}

/** The update with everything replaced that PostgreSQL cannot hold as text. */
export const storable = (update: Update): Update => ({
  ...Object(storableValue(update)),
  update_id: update.update_id
})
