import { createHmac } from "node:crypto"
import { Data } from "effect"
import { digestOf, isAmong } from "../access/ConstantTime.js"
import * as SigningKey from "../core/SigningKey.js"
import type { SignatureStyle } from "./config/Declarations.js"

// Verifies webhook signatures, and makes those of Standard Webhooks. All three styles sign the raw bytes of the body, so verify before parsing. Standard
// Webhooks and Stripe also sign a timestamp, which limits replay attacks.

/** Maximum clock difference between a delivery's timestamp and now. */
const toleranceMillis = 300_000

/** Limits the CPU time that a forged header can cost. */
const maxSignatures = 16

export type Headers = Readonly<Record<string, string | ReadonlyArray<string> | undefined>>

export type Verdict = Data.TaggedEnum<{
  Genuine: {}
  /** The signature is missing or wrong, or the timestamp is too old. */
  Refused: { readonly reason: string }
}>
export const Verdict = Data.taggedEnum<Verdict>()

/** Returns the signing key of a secret, or undefined if the secret is malformed. */
export const keyOf = (style: SignatureStyle, secret: string): Buffer | undefined =>
  style === "standard" ? SigningKey.keyOf(secret) : Buffer.from(secret)

const headerOf = (headers: Headers, name: string): string | undefined => {
  const value = headers[name]
  return typeof value === "string" && value !== "" ? value : undefined
}

interface Claim {
  /** The signed text that precedes the body. */
  readonly prefix: string
  readonly signatures: ReadonlyArray<string>
  readonly encoding: "hex" | "base64"
  /** Unix seconds; undefined if the style has no timestamp. */
  readonly timestamp: string | undefined
}

/** Svix, the origin of Standard Webhooks, sends the same headers with the prefix `svix-`. */
const standardHeader = (headers: Headers, name: "id" | "timestamp" | "signature") => {
  const family = headerOf(headers, "webhook-signature") === undefined ? "svix" : "webhook"
  return headerOf(headers, `${family}-${name}`)
}

const standardClaim = (headers: Headers): Claim | undefined => {
  const id = standardHeader(headers, "id")
  const timestamp = standardHeader(headers, "timestamp")
  if (id === undefined || timestamp === undefined) return undefined
  const signatures = (standardHeader(headers, "signature") ?? "")
    .split(" ")
    .flatMap((part) => (part.startsWith("v1,") ? [part.slice(3)] : []))
  return { prefix: `${id}.${timestamp}.`, signatures, encoding: "base64", timestamp }
}

const githubClaim = (headers: Headers): Claim => {
  const header = headerOf(headers, "x-hub-signature-256") ?? ""
  const signatures = header.startsWith("sha256=") ? [header.slice("sha256=".length)] : []
  return { prefix: "", signatures, encoding: "hex", timestamp: undefined }
}

const stripeClaim = (headers: Headers): Claim | undefined => {
  const parts = (headerOf(headers, "stripe-signature") ?? "").split(",").map((part) => part.trim().split("="))
  const timestamp = parts.find(([name]) => name === "t")?.[1]
  if (timestamp === undefined) return undefined
  const signatures = parts.flatMap(([name, value]) => (name === "v1" && value !== undefined ? [value] : []))
  return { prefix: `${timestamp}.`, signatures, encoding: "hex", timestamp }
}

const claimOf = { standard: standardClaim, github: githubClaim, stripe: stripeClaim }

const isFresh = (timestamp: string, now: number) =>
  /^\d{1,12}$/.test(timestamp) && Math.abs(Number(timestamp) * 1000 - now) <= toleranceMillis

/** Format of an HMAC-SHA256 in each encoding. */
const forms = { hex: /^[0-9a-f]{64}$/i, base64: /^[A-Za-z0-9+/]{43}=$/ }

const checkClaim = (style: SignatureStyle, headers: Headers, now: number): Claim | { readonly reason: string } => {
  const claim = claimOf[style](headers)
  if (claim === undefined) return { reason: "The signature headers are incomplete." }
  const { encoding, signatures, timestamp } = claim
  if (signatures.length > maxSignatures)
    return { reason: `The signature header has more than ${maxSignatures} signatures.` }
  if (!signatures.some((signature) => forms[encoding].test(signature)))
    return { reason: "The signature is missing or malformed." }
  return timestamp === undefined || isFresh(timestamp, now)
    ? claim
    : { reason: "The timestamp differs from the server's clock by more than 300 seconds." }
}

/** Checks what is possible before the body is read: headers, signature format and timestamp. */
export const preVerify = (style: SignatureStyle, headers: Headers, now: number): Verdict => {
  const claim = checkClaim(style, headers, now)
  return "reason" in claim ? Verdict.Refused(claim) : Verdict.Genuine()
}

/** Verifies a delivery's signature with any of the keys, and its timestamp. */
export const verify = (
  style: SignatureStyle,
  keys: ReadonlyArray<Buffer>,
  headers: Headers,
  body: Buffer,
  now: number
): Verdict => {
  const claim = checkClaim(style, headers, now)
  if ("reason" in claim) return Verdict.Refused(claim)
  const { encoding, prefix, signatures } = claim
  const expected = keys.map((key) => digestOf(createHmac("sha256", key).update(prefix).update(body).digest(encoding)))
  let genuine = false
  for (const signature of signatures) genuine = isAmong(signature, expected) || genuine
  return genuine ? Verdict.Genuine() : Verdict.Refused({ reason: "The signature does not match the body." })
}

/** The headers of Standard Webhooks for a body, with one signature for each key. `now` is in epoch milliseconds. */
export const signed = (
  keys: ReadonlyArray<Buffer>,
  id: string,
  body: string,
  now: number
): Readonly<Record<string, string>> => {
  const timestamp = String(Math.floor(now / 1000))
  const signatureOf = (key: Buffer) => createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body)
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    "webhook-signature": keys.map((key) => `v1,${signatureOf(key).digest("base64")}`).join(" ")
  }
}

/** Returns the sender's delivery id, which is the same for redeliveries, and the event name. */
export const deliveryOf = (
  style: SignatureStyle,
  headers: Headers,
  body: unknown
): { readonly id: string | undefined; readonly event: string | undefined } => {
  const field = (name: string) => {
    const value: unknown = Object(body)[name]
    return typeof value === "string" && value !== "" ? value : undefined
  }
  switch (style) {
    case "standard":
      return { id: standardHeader(headers, "id"), event: field("type") }
    case "github":
      return { id: headerOf(headers, "x-github-delivery"), event: headerOf(headers, "x-github-event") }
    case "stripe":
      return { id: field("id"), event: field("type") }
  }
}
