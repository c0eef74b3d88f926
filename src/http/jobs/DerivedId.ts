import { createHash } from "node:crypto"
import type { JobId } from "../../core/Ids.js"

/** The id of a request's job that has none: the same for the same key and place, and sorting by when the key was first seen. */
export const derivedId = (key: string, place: number, firstSeen: number): JobId => {
  const digest = createHash("sha256").update(`${place}:${key}`).digest("hex")
  const variant = ((Number.parseInt(digest.charAt(15), 16) & 0x3) | 0x8).toString(16)
  const text = `${Math.floor(firstSeen).toString(16).padStart(12, "0")}7${digest.slice(0, 3)}${variant}${digest.slice(3, 18)}`
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as JobId
}
