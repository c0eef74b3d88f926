// Verifies signatures of Standard Webhooks with Web Crypto, which every runtime has.

const defaultToleranceSeconds = 300

/** Limits the CPU time that a forged header can cost. */
const maxSignatures = 16

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> | undefined => {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}

export type Key = Awaited<ReturnType<typeof crypto.subtle.importKey>>

/** The key of a secret. Undefined if the secret is malformed. */
export const keyOf = async (secret: unknown): Promise<Key | undefined> => {
  const bytes = typeof secret === "string" ? bytesOf(secret.trim().replace(/^whsec_/, "")) : undefined
  if (bytes === undefined || bytes.length < 24 || bytes.length > 64) return undefined
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["verify"])
}

export interface Signed {
  /** The signed text that precedes the body. */
  readonly prefix: string
  readonly signatures: ReadonlyArray<Uint8Array<ArrayBuffer>>
}

/** Reads the signature headers, before the body is read. Returns what is wrong with them as a text. */
export const read = (headers: Headers, now: number, toleranceSeconds = defaultToleranceSeconds): Signed | string => {
  const [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) =>
    headers.get(name)
  )
  if (!id || !timestamp || !signature) return "The signature headers are incomplete."
  const isFresh = /^\d{1,12}$/.test(timestamp) && Math.abs(Number(timestamp) * 1000 - now) <= toleranceSeconds * 1000
  if (!isFresh) return `The timestamp differs from this machine's clock by more than ${toleranceSeconds} seconds.`
  const parts = signature.split(" ")
  if (parts.length > maxSignatures) return `The signature header has more than ${maxSignatures} signatures.`
  const signatures = parts.flatMap((part) => (part.startsWith("v1,") ? (bytesOf(part.slice(3)) ?? []) : []))
  return { prefix: `${id}.${timestamp}.`, signatures }
}

/** Whether one of the keys has made one of the signatures. `subtle.verify` compares in constant time. */
export const isGenuine = async (
  keys: ReadonlyArray<Key>,
  { prefix, signatures }: Signed,
  body: Uint8Array
): Promise<boolean> => {
  const head = new TextEncoder().encode(prefix)
  const content = new Uint8Array(head.length + body.length)
  content.set(head)
  content.set(body, head.length)
  const pairs = keys.flatMap((key) => signatures.map((signature) => ({ key, signature })))
  const found = await Promise.all(
    pairs.map(({ key, signature }) => crypto.subtle.verify("HMAC", key, signature, content))
  )
  return found.includes(true)
}
