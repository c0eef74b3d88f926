import { createHash, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

/** What a text is compared by: of one length for all texts, and telling nothing of them. */
export const digestOf = (text: string | Buffer): Buffer => createHash("sha256").update(text).digest()

/** Whether a text is one of those known by these digests. All are looked at, so the time taken does not say which. */
export const isAmong = (given: string | Buffer, digests: ReadonlyArray<Buffer>): boolean => {
  const digest = digestOf(given)
  let found = false
  for (const expected of digests) found = timingSafeEqual(digest, expected) || found
  return found
}

/** Whether two secrets are the same, in a time that tells nothing about where they differ or how long they are. */
export const isSame = (given: string, expected: Redacted.Redacted): boolean =>
  isAmong(given, [digestOf(Redacted.value(expected))])
