import { addresseeOf, type Update, userOf } from "../../gateway/telegram/TelegramUpdate.js"

// How Telegram delivers updates to a webhook, as its own server does it. Pure: seconds in, seconds out.

/** Longest waits between two tries are somewhere between these. */
const caps = { least: 60, most: 120 }

/** No `Retry-After` is obeyed beyond an hour. */
const longestRetryAfter = 3600

/**
 * How long to wait after so many failures: not at all, then 2, 4, 8 … up to a cap that `chance` decides. What the other side
 * asked for comes first.
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

/** How long Telegram goes on trying to deliver an update. */
export const lifetimeOf = (update: Update): number => {
  const sort = Object.keys(update).find((key) => key !== "update_id") ?? ""
  return lifetimes[sort] ?? 24 * 3600
}

/** Updates of one line are delivered one after the other. Callback queries stand in their user's, messages in their chat's. */
export const lineOf = (update: Update): string => {
  if (update.callback_query !== undefined) return `user ${userOf(update)}`
  return `chat ${addresseeOf(update) ?? "none"}`
}

/** A number from 0 to 1 that is the same for the same seed and words, whatever else happens meanwhile. */
export const chanceOf = (seed: number, ...words: ReadonlyArray<number | string>): number => {
  let hash = 0x811c9dc5 ^ seed
  for (const character of words.join("/")) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}
