import { Predicate } from "effect"

/** What a bot says. */
export interface Reply {
  readonly text: string
}

/** The longest text that Telegram takes as one message. */
const mostLength = 4096

/** A text cut to what fits into a message, and not in the middle of a character. */
const fitting = (text: string): string => {
  if (text.length <= mostLength) return text
  const last = text.charCodeAt(mostLength - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? mostLength - 1 : mostLength)
}

/** A reply, unless there is nothing in it: Telegram takes no empty messages. */
export const make = (text: string): Reply | undefined => (text.trim() === "" ? undefined : { text: fitting(text) })

/** A value as a reply: a text, or an object with one. */
export const of = (value: unknown): Reply | undefined => {
  const text = Predicate.hasProperty(value, "text") ? value.text : value
  return typeof text === "string" ? make(text) : undefined
}

/** A reply in the answer to a webhook: Telegram carries it out, and nobody needs to call it. */
export const inResponse = (chat: number, { text }: Reply): string =>
  JSON.stringify({ method: "sendMessage", chat_id: chat, text })
