import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, Stream } from "effect"
import * as MimeType from "../../uploads/MimeType.js"
import type { Stored } from "../../uploads/Storage.js"
import type { ByteRange as Range, Upload } from "../../uploads/Upload.js"
import { RangeRefused } from "../RequestErrors.js"
import * as ByteRange from "./ByteRange.js"
import * as ContentDisposition from "./ContentDisposition.js"

const tagOf = ({ sha256 }: Upload) => `"${sha256}"`

/** A range is of one content: asked for with another's tag, the whole is sent. */
const rangeOf = ({ headers }: HttpServerRequest.HttpServerRequest, upload: Upload) => {
  const condition = headers["if-range"]
  return condition === undefined || condition === tagOf(upload)
    ? ByteRange.read(headers.range, upload.size)
    : ("all" as const)
}

/** Whether the client has this very content already (RFC 9110, 13.1.2). */
const isKnown = ({ headers }: HttpServerRequest.HttpServerRequest, upload: Upload): boolean =>
  (headers["if-none-match"] ?? "").split(",").some((tag) => {
    const plain = tag.trim().replace(/^W\//, "")
    return plain === "*" || plain === tagOf(upload)
  })

// A name or type that a program gave may be anything; what came through the door is safe already.
/** A stranger's content comes from our address: no browser may run it, guess at it, or show it as ours. */
const headersOf = (upload: Upload) => ({
  "accept-ranges": "bytes",
  "content-disposition": ContentDisposition.attachment(upload.filename),
  "content-security-policy": "sandbox",
  "cross-origin-resource-policy": "same-origin",
  "x-content-type-options": "nosniff",
  etag: tagOf(upload)
})

/** A file's content, or the part of it that is asked for. `whenSent` runs when its last byte has left. */
export const respond = (
  { content, upload }: Stored,
  whenSent: Effect.Effect<void>
): Effect.Effect<HttpServerResponse.HttpServerResponse, RangeRefused, HttpServerRequest.HttpServerRequest> =>
  Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (isKnown(request, upload)) return HttpServerResponse.empty({ status: 304, headers: { etag: tagOf(upload) } })
    const asked = rangeOf(request, upload)
    if (asked === "none") return yield* new RangeRefused({ size: upload.size })
    const range: Range = asked === "all" ? { first: 0, last: upload.size - 1 } : asked
    const response = toServerResponse(request)
    const body = content(range).pipe(
      Stream.onEnd(range.last === upload.size - 1 ? whenSent : Effect.void),
      // The length is promised already. Only a connection that breaks tells the client that this is not the end.
      Stream.tapErrorCause((cause) =>
        Effect.zipRight(
          Effect.logWarning(`file ${upload.id} could not be sent to its end`, cause),
          Effect.sync(() => response.destroy())
        )
      )
    )
    return HttpServerResponse.stream(body, {
      status: asked === "all" ? 200 : 206,
      contentType: MimeType.strip(upload.mimetype),
      contentLength: range.last - range.first + 1,
      headers: {
        ...headersOf(upload),
        ...(asked === "all" ? {} : { "content-range": `bytes ${range.first}-${range.last}/${upload.size}` })
      }
    })
  })
