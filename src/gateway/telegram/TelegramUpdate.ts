import type { Update } from "@grammyjs/types"
import { Predicate } from "effect"

// What the gateway needs to know of an update, whatever sort it is of. Telegram adds sorts; one that we do not know is looked
// through in the same way, and kept whole.

export type { Update } from "@grammyjs/types"

/** Whether a value is an update: an object with a whole `update_id`. */
export const isUpdate = (value: unknown): value is Update =>
  Predicate.isRecord(value) && !Array.isArray(value) && Number.isSafeInteger(value.update_id)

const idOf = (value: unknown): number | undefined =>
  Predicate.hasProperty(value, "id") && Number.isSafeInteger(value.id) ? Number(value.id) : undefined

const within = (value: unknown, key: string): unknown => (Predicate.hasProperty(value, key) ? value[key] : undefined)

/** What the update is about: its one field beside the id. */
const contentOf = (update: Update): unknown => Object.values(update).find((value) => Predicate.isRecord(value))

/** The types that a webhook can ask Telegram for. */
export const updateTypes: ReadonlySet<string> = new Set([
  "message",
  "edited_message",
  "channel_post",
  "edited_channel_post",
  "business_connection",
  "business_message",
  "edited_business_message",
  "deleted_business_messages",
  "message_reaction",
  "message_reaction_count",
  "inline_query",
  "chosen_inline_result",
  "callback_query",
  "shipping_query",
  "pre_checkout_query",
  "purchased_paid_media",
  "poll",
  "poll_answer",
  "my_chat_member",
  "chat_member",
  "chat_join_request",
  "chat_boost",
  "removed_chat_boost"
])

/** The type of an update: the name of that field. */
export const typeOf = (update: Update): string | undefined =>
  Object.keys(update).find((name) => updateTypes.has(name)) ??
  Object.entries(update).find(([, value]) => Predicate.isRecord(value))?.[0]

/** The chat that an update belongs to, where it belongs to one. */
export const chatOf = (update: Update): number | undefined => {
  const content = contentOf(update)
  return (
    idOf(within(content, "chat")) ??
    idOf(within(within(content, "message"), "chat")) ??
    idOf(within(content, "voter_chat"))
  )
}

/** The user whose act an update is, where it is somebody's. */
export const userOf = (update: Update): number | undefined => {
  const content = contentOf(update)
  return idOf(within(content, "from")) ?? idOf(within(content, "user"))
}

/** Where to answer: the chat, or the user's own where an update has none. */
export const addresseeOf = (update: Update): number | undefined => chatOf(update) ?? userOf(update)

/** The text or caption that somebody wrote. */
export const textOf = (update: Update): string | undefined => {
  const content = contentOf(update)
  const text = within(content, "text") ?? within(content, "caption")
  return typeof text === "string" ? text : undefined
}

/** The number of the message in its chat. */
export const messageIdOf = (update: Update): number | undefined => {
  const id = within(contentOf(update), "message_id")
  return Number.isSafeInteger(id) ? Number(id) : undefined
}
