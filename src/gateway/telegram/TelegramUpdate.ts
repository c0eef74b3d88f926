import { Predicate } from "effect"

// Reads the few fields of an update that the gateway needs. Works for every update type, including types added by
// Telegram later.

/** An update of Telegram: its id, and one field with its content. */
export interface Update {
  readonly update_id: number
  readonly [content: string]: unknown
}

/** Whether a value is an update: an object with an integer `update_id`. */
export const isUpdate = (value: unknown): value is Update =>
  Predicate.isRecord(value) && Number.isSafeInteger(value.update_id)

const within = (value: unknown, key: string): unknown => (Predicate.isRecord(value) ? value[key] : undefined)

const idOf = (value: unknown): number | undefined => {
  const id = within(value, "id")
  return Number.isSafeInteger(id) ? Number(id) : undefined
}

/** The update's content: its one object field besides the id. Loops, because every webhook is read here. */
const contentOf = (update: Update): unknown => {
  for (const name in update) {
    const value = update[name]
    if (Predicate.isRecord(value)) return value
  }
  return undefined
}

/** Update types that a webhook can subscribe to. */
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

/** The type of an update: the name of its content field. */
export const typeOf = (update: Update): string | undefined => {
  for (const name in update) if (updateTypes.has(name)) return name
  for (const name in update) if (Predicate.isRecord(update[name])) return name
  return undefined
}

/** The chat id of an update, if it has one. */
export const chatOf = (update: Update): number | undefined => {
  const content = contentOf(update)
  return (
    idOf(within(content, "chat")) ??
    idOf(within(within(content, "message"), "chat")) ??
    idOf(within(content, "voter_chat"))
  )
}

/**
 * The user who caused the update, if it has one. Undefined for a message or a vote on behalf of a chat: its `from` or `user`
 * is then the same for all anonymous admins, or for all channels.
 */
export const userOf = (update: Update): number | undefined => {
  const content = contentOf(update)
  if (Predicate.isRecord(within(content, "sender_chat")) || Predicate.isRecord(within(content, "voter_chat")))
    return undefined
  return idOf(within(content, "from")) ?? idOf(within(content, "user"))
}

/** The chat to reply to: the update's chat, or the user's private chat. */
export const replyChatOf = (update: Update): number | undefined => chatOf(update) ?? userOf(update)

/** The text or caption of the message. */
export const textOf = (update: Update): string | undefined => {
  const content = contentOf(update)
  const text = within(content, "text") ?? within(content, "caption")
  return typeof text === "string" ? text : undefined
}

export const messageIdOf = (update: Update): number | undefined => {
  const id = within(contentOf(update), "message_id")
  return Number.isSafeInteger(id) ? Number(id) : undefined
}
