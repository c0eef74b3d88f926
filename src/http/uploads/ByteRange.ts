import type { ByteRange } from "../../uploads/Upload.js"

/** The part of a content that a `Range` header asks for: all of it when it asks for nothing we know, none when it is after the end. */
export const read = (header: string | undefined, size: number): ByteRange | "all" | "none" => {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.replaceAll(" ", "") ?? "") ?? []
  if (from === undefined || to === undefined || (from === "" && to === "")) return "all"
  if (from === "") {
    const length = Math.min(Number(to), size)
    return length === 0 ? "none" : { first: size - length, last: size - 1 }
  }
  const first = Number(from)
  const last = to === "" ? size - 1 : Math.min(Number(to), size - 1)
  // Backwards is not a range at all.
  if (to !== "" && Number(to) < first) return "all"
  return first >= size ? "none" : { first, last }
}
