import { createHash, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

/** Hashes a text for comparison, so that all compared values have the same length. */
export const digestOf = (text: string | Buffer): Buffer => createHash("sha256").update(text).digest()

/** Whether the text has one of these digests. Compares all of them, so the time taken does not depend on a match. */
export const isAmong = (given: string | Buffer, digests: ReadonlyArray<Buffer>): boolean => {
  const digest = digestOf(given)
  let found = false
  for (const expected of digests) found = timingSafeEqual(digest, expected) || found
  return found
}

/** Maximum length of a Telegram webhook secret. */
const mostLength = 256

/** Pads a text to a fixed size and appends its length. */
const padded = (text: string, into = Buffer.alloc(mostLength + 2)): Buffer => {
  into.fill(0)
  into.write(text, 0, mostLength, "latin1")
  into.writeUInt16LE(Math.min(text.length, 0xffff), mostLength)
  return into
}

/** Prepares a short secret for comparison. Ten times faster than a digest, which matters for the webhook endpoint. */
export const shortSecret = (secret: Redacted.Redacted): Buffer => padded(Redacted.value(secret))

const given = Buffer.alloc(mostLength + 2)

/** Whether the text is one of these short secrets, in constant time. */
export const isAmongShort = (text: string, secrets: ReadonlyArray<Buffer>): boolean => {
  padded(text, given)
  let found = false
  for (const expected of secrets) found = timingSafeEqual(given, expected) || found
  return found
}

/** Whether two secrets are equal, in a time that reveals neither their difference nor their length. */
export const isSame = (given: string, expected: Redacted.Redacted): boolean =>
  isAmong(given, [digestOf(Redacted.value(expected))])
