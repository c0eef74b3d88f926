import { createHash } from "node:crypto"
import type { JobId } from "../../core/Ids.js"

/**
 * Derives the id of a job from the request's idempotency key and the job's index, so a repeated request yields the same
 * id. Sorts by the time of the key's first use.
 */
export const derivedId = (key: string, place: number, firstSeen: number): JobId => {
  const digest = createHash("sha256").update(`${place}:${key}`).digest("hex")
  const variant = ((Number.parseInt(digest.charAt(15), 16) & 0x3) | 0x8).toString(16)
  const text = `${Math.floor(firstSeen).toString(16).padStart(12, "0")}7${digest.slice(0, 3)}${variant}${digest.slice(3, 18)}`
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as JobId
}
