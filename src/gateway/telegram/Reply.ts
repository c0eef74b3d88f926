import { Predicate } from "effect"
import { truncated } from "../../core/Storable.js"

/** A bot's reply. */
export interface Reply {
  readonly text: string
}

/** Maximum length of a Telegram message. */
const maxReplyCharacters = 4096

/** Makes a reply, or undefined for a blank text, which Telegram rejects. */
export const make = (text: string): Reply | undefined =>
  text.trim() === "" ? undefined : { text: truncated(text, maxReplyCharacters) }

/** Converts a string or an object with `text` to a reply. */
export const of = (value: unknown): Reply | undefined => {
  const text = Predicate.hasProperty(value, "text") ? value.text : value
  return typeof text === "string" ? make(text) : undefined
}

/** Formats a reply as a webhook response body, which Telegram executes without a separate call. */
export const inResponse = (chat: number, { text }: Reply): string =>
  JSON.stringify({ method: "sendMessage", chat_id: chat, text })
