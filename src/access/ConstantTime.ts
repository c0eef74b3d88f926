import { createHash, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

/** The SHA-256 digest of a text, to store instead of it, and to compare values of the same length. */
export const digestOf = (text: string | Buffer): Buffer => createHash("sha256").update(text).digest()

/** Whether the text has one of these digests. Compares all of them, so the time taken does not depend on a match. */
export const isAmong = (given: string | Buffer, digests: ReadonlyArray<Buffer>): boolean => {
  const digest = digestOf(given)
  let found = false
  for (const expected of digests) found = timingSafeEqual(digest, expected) || found
  return found
}

/** Whether two secrets are equal, in a time that reveals neither their difference nor their length. */
export const isSame = (given: string, expected: Redacted.Redacted): boolean =>
  isAmong(given, [digestOf(Redacted.value(expected))])
