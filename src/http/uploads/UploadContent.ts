import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Stream } from "effect"
import type { Stored } from "../../uploads/Storage.js"
import { type ByteRange, stripMimeType, type Upload } from "../../uploads/Upload.js"
import { RangeRefused } from "../RequestErrors.js"
import * as ContentDisposition from "./ContentDisposition.js"

/**
 * Parses a `Range` header. Returns "all" if the header is missing or not supported, and "none" if the range starts
 * after the end.
 */
export const readRange = (header: string | undefined, size: number): ByteRange | "all" | "none" => {
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

const tagOf = ({ sha256 }: Upload) => `"${sha256}"`

/** Ignores the range of a HEAD (RFC 9110, 14.2), and if `If-Range` names another version of the content. */
const rangeOf = ({ headers, method }: HttpServerRequest.HttpServerRequest, upload: Upload) => {
  const condition = headers["if-range"]
  return method === "GET" && (condition === undefined || condition === tagOf(upload))
    ? readRange(headers.range, upload.size)
    : ("all" as const)
}

/** Whether the client already has this content (RFC 9110, 13.1.2). */
const isKnown = ({ headers }: HttpServerRequest.HttpServerRequest, upload: Upload): boolean =>
  (headers["if-none-match"] ?? "").split(",").some((tag) => {
    const plain = tag.trim().replace(/^W\//, "")
    return plain === "*" || plain === tagOf(upload)
  })

// Sanitize the name again: files stored by a program, not by upload, may have any name.
/** Untrusted content is served from our origin, so browsers must not execute, sniff or display it. */
const headersOf = (upload: Upload) => ({
  "accept-ranges": "bytes",
  "content-disposition": ContentDisposition.attachment(upload.filename),
  "content-security-policy": "sandbox",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  etag: tagOf(upload)
})

/** Responds with a file's content or the requested range. `whenSent` runs after the file's last byte was sent. */
export const respond = (
  { content, upload }: Stored,
  whenSent: Effect.Effect<void>
): Effect.Effect<HttpServerResponse.HttpServerResponse, RangeRefused, HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (isKnown(request, upload)) return HttpServerResponse.empty({ status: 304, headers: { etag: tagOf(upload) } })
    const requested = rangeOf(request, upload)
    if (requested === "none") return yield* new RangeRefused({ bytes: upload.size })
    const range: ByteRange = requested === "all" ? { first: 0, last: upload.size - 1 } : requested
    const response = toServerResponse(request)
    const body = content(range).pipe(
      Stream.onEnd(range.last === upload.size - 1 ? whenSent : Effect.void),
      // The Content-Length is already sent, so only a broken connection shows the client that the content is
      // incomplete.
      Stream.tapErrorCause((cause) =>
        Effect.zipRight(
          Effect.logWarning(`could not send file ${upload.id} completely`, cause),
          Effect.sync(() => response.destroy())
        )
      )
    )
    return HttpServerResponse.stream(body, {
      status: requested === "all" ? 200 : 206,
      contentType: stripMimeType(upload.mimetype),
      contentLength: range.last - range.first + 1,
      headers: {
        ...headersOf(upload),
        ...(requested === "all" ? {} : { "content-range": `bytes ${range.first}-${range.last}/${upload.size}` })
      }
    })
  })
