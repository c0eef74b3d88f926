import { createHash, randomBytes, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

// `nst_`, eight characters by which people and the table recognize it, and 256 bits of chance. The prefix is chance of its
// own, not the beginning of the secret: whoever reads it in a list learns nothing of the rest.

const form = /^(nst_[0-9a-f]{8})[\w-]{43}$/

const hashOf = (text: string): Buffer => createHash("sha256").update(text).digest()

/** What is stored of a token. */
export interface Kept {
  readonly prefix: string
  readonly hash: Buffer
}

/** A new token, and what is stored of it. */
export const make = (): Kept & { readonly secret: Redacted.Redacted } => {
  const prefix = `nst_${randomBytes(4).toString("hex")}`
  const text = `${prefix}${randomBytes(32).toString("base64url")}`
  return { prefix, hash: hashOf(text), secret: Redacted.make(text) }
}

/** The prefix of what somebody gave; none, and so no token's, when it cannot be one. */
export const prefixOf = (given: string): string => form.exec(given)?.[1] ?? ""

const nobody = Buffer.alloc(32)

/** Whether what was given is one of these. All are compared, and something is compared also where there is none. */
export const isOneOf = (given: string, hashes: ReadonlyArray<Buffer>): boolean => {
  const hash = hashOf(given)
  timingSafeEqual(hash, nobody)
  return hashes.reduce((found, known) => timingSafeEqual(hash, known) || found, false)
}
