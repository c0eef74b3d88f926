import { replyChatOf, type Update, userOf } from "../../gateway/telegram/TelegramUpdate.js"

// Telegram's delivery rules for webhooks, as pure functions on seconds.

/** Range of the maximum delay between two attempts, in seconds. */
const caps = { least: 60, most: 120 }

/** Longest `Retry-After` that is respected, in seconds. */
const longestRetryAfter = 3600

/**
 * Returns the delay after a number of failures: 0, 2, 4, 8 … up to a cap that depends on `chance`. `Retry-After` takes
 * precedence.
 */
export const retryDelay = (failures: number, chance: number, retryAfter: number | undefined): number => {
  if (retryAfter !== undefined) return Math.min(Math.max(retryAfter, 0), longestRetryAfter)
  if (failures <= 1) return 0
  return Math.min(2 ** (failures - 1), caps.least + chance * (caps.most - caps.least))
}

const lifetimes: Readonly<Record<string, number>> = {
  callback_query: 150,
  shipping_query: 150,
  pre_checkout_query: 150,
  chosen_inline_result: 600,
  inline_query: 30
}

/** Returns how long Telegram retries an update, in seconds. */
export const lifetimeOf = (update: Update): number => {
  const sort = Object.keys(update).find((key) => key !== "update_id") ?? ""
  return lifetimes[sort] ?? 24 * 3600
}

/**
 * Returns the ordering key of an update: updates with the same key are delivered in sequence. Callback queries are
 * ordered per user, messages per chat.
 */
export const lineOf = (update: Update): string => {
  if (update.callback_query !== undefined) return `user ${userOf(update)}`
  return `chat ${replyChatOf(update) ?? "none"}`
}

/** Returns a number from 0 to 1 that depends only on the seed and the words. */
export const chanceOf = (seed: number, ...words: ReadonlyArray<number | string>): number => {
  let hash = 0x811c9dc5 ^ seed
  for (const character of words.join("/")) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}
