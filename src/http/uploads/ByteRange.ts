import type { ByteRange } from "../../uploads/Upload.js"

/**
 * Parses a `Range` header. Returns "all" if the header is missing or not supported, and "none" if the range starts
 * after the end.
 */
export const read = (header: string | undefined, size: number): ByteRange | "all" | "none" => {
  const [, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header?.replaceAll(" ", "") ?? "") ?? []
  if (from === undefined || to === undefined || (from === "" && to === "")) return "all"
  if (from === "") {
    const length = Math.min(Number(to), size)
    return length === 0 ? "none" : { first: size - length, last: size - 1 }
  }
  const first = Number(from)
  const last = to === "" ? size - 1 : Math.min(Number(to), size - 1)
  // RFC 9110: a range that ends before it starts is invalid and is ignored.
  if (to !== "" && Number(to) < first) return "all"
  return first >= size ? "none" : { first, last }
}
