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

/** The longest secret that Telegram takes. */
const mostLength = 256

/** A text of bounded length as bytes that are as long as all others', its length among them. */
const padded = (text: string, into = Buffer.alloc(mostLength + 2)): Buffer => {
  into.fill(0)
  into.write(text, 0, mostLength, "latin1")
  into.writeUInt16LE(Math.min(text.length, 0xffff), mostLength)
  return into
}

/** What a short secret is recognised by, for a door that is asked thousands of times a second: ten times faster than a digest. */
export const shortSecret = (secret: Redacted.Redacted): Buffer => padded(Redacted.value(secret))

const given = Buffer.alloc(mostLength + 2)

/** Whether a text is one of these short secrets, in a time that is the same for all texts. */
export const isAmongShort = (text: string, secrets: ReadonlyArray<Buffer>): boolean => {
  padded(text, given)
  let found = false
  for (const expected of secrets) found = timingSafeEqual(given, expected) || found
  return found
}

/** Whether two secrets are the same, in a time that tells nothing about where they differ or how long they are. */
export const isSame = (given: string, expected: Redacted.Redacted): boolean =>
  isAmong(given, [digestOf(Redacted.value(expected))])
