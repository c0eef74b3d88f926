import { createHash, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Whether two secrets are the same, in a time that tells nothing about where they differ or how long they are. */
export const sameSecret = (given: string, expected: Redacted.Redacted): boolean =>
  timingSafeEqual(digest(given), digest(Redacted.value(expected)))

/** The token of an `Authorization: Bearer` header. */
export const tokenOf = (authorization: string | undefined): string | undefined =>
  /^Bearer +(\S+) *$/i.exec(authorization ?? "")?.[1]
