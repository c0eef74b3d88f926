import { createHash, randomBytes, timingSafeEqual } from "node:crypto"
import { Redacted } from "effect"

// A token is `nst_`, eight hex characters that identify it, and 256 random bits. The identifying prefix is generated
// separately, so showing it in a list reveals nothing about the secret part.

const form = /^(nst_[0-9a-f]{8})[\w-]{43}$/

const hashOf = (text: string): Buffer => createHash("sha256").update(text).digest()

/** The stored part of a token. */
export interface Kept {
  readonly prefix: string
  readonly hash: Buffer
}

/** Makes a token and its stored part. */
export const make = (): Kept & { readonly secret: Redacted.Redacted } => {
  const prefix = `nst_${randomBytes(4).toString("hex")}`
  const text = `${prefix}${randomBytes(32).toString("base64url")}`
  return { prefix, hash: hashOf(text), secret: Redacted.make(text) }
}

/** Returns the prefix of a presented token, or "" (which matches no token) if the format is wrong. */
export const prefixOf = (given: string): string => form.exec(given)?.[1] ?? ""

const dummyHash = Buffer.alloc(32)

/**
 * Whether the presented token has one of these hashes. Compares all of them, and a dummy first, so the time taken does
 * not depend on a match.
 */
export const isOneOf = (given: string, hashes: ReadonlyArray<Buffer>): boolean => {
  const hash = hashOf(given)
  timingSafeEqual(hash, dummyHash)
  return hashes.reduce((found, known) => timingSafeEqual(hash, known) || found, false)
}
