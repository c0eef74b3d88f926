import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { toIncomingMessage } from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, ParseResult, Schema } from "effect"
import * as JsonNumbers from "../core/JsonNumbers.js"
import { BadRequest, BodyTooLarge, ContentTypeRefused, RequestTimedOut } from "./RequestErrors.js"
import * as RequestFault from "./RequestFault.js"

/** How long a body may take to arrive. */
const patience = "60 seconds"

const refusedType = (headers: HttpServerRequest.HttpServerRequest["headers"]): string | undefined => {
  const type = headers["content-type"]
  if (type === undefined) return "of no type"
  if (!/^application\/json *(; *charset *= *"?utf-8"? *)?$/i.test(type.trim())) return type
  const encoding = headers["content-encoding"]
  return encoding === undefined || encoding.toLowerCase() === "identity" ? undefined : `encoded as ${encoding}`
}

const read = (source: IncomingMessage, mostBytes: number): Effect.Effect<Buffer, BodyTooLarge | BadRequest> =>
  Effect.async((resume) => {
    const chunks: Array<Buffer> = []
    let bytes = 0
    const take = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= mostBytes) return chunks.push(chunk)
      finish(Effect.fail(new BodyTooLarge({ mostBytes })))
    }
    const end = () => finish(Effect.succeed(Buffer.concat(chunks)))
    const broken = () => finish(Effect.fail(new BadRequest({ message: "The body ended before its end." })))
    const leave = () => {
      source.off("data", take).off("end", end).off("close", broken).off("error", broken)
      // The server reads what is left for a bounded time once the answer is written, and then hangs up.
      source.on("error", () => {}).pause()
    }
    const finish = (result: Effect.Effect<Buffer, BodyTooLarge | BadRequest>) => {
      leave()
      resume(result)
    }
    source.on("data", take).once("end", end).once("close", broken).once("error", broken)
    return Effect.sync(leave)
  })

const utf8 = new TextDecoder("utf-8", { fatal: true })

const parse = (bytes: Buffer): Effect.Effect<unknown, BadRequest> =>
  Effect.suspend(() => {
    try {
      const text = utf8.decode(bytes)
      const value: unknown = JSON.parse(text)
      const lost = JsonNumbers.lostIn(text)
      return lost === undefined ? Effect.succeed(value) : RequestFault.at(lost.path, JsonNumbers.reasonOf(lost), value)
    } catch (error) {
      const message =
        error instanceof SyntaxError
          ? `The body is not JSON: ${error.message}.`
          : "The body is not JSON: it is not written in UTF-8."
      return new BadRequest({ message })
    }
  })

/** The JSON that a request carries. What is too large or of another type is refused before it is read. */
export const json = (
  request: HttpServerRequest.HttpServerRequest,
  mostBytes: number
): Effect.Effect<unknown, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.gen(function* () {
    const refused = refusedType(request.headers)
    if (refused !== undefined) return yield* new ContentTypeRefused({ given: refused })
    if (Number(request.headers["content-length"] ?? 0) > mostBytes) return yield* new BodyTooLarge({ mostBytes })
    const bytes = yield* Effect.timeoutFail(read(toIncomingMessage(request), mostBytes), {
      duration: patience,
      onTimeout: () => new RequestTimedOut({ message: "The body takes too long to arrive. Send it again." })
    })
    return yield* parse(bytes)
  })

/** The same as a value of a schema, or what is wrong with the first thing that is. */
export const decoded = <A, I>(
  request: HttpServerRequest.HttpServerRequest,
  schema: Schema.Schema<A, I>,
  mostBytes: number
): Effect.Effect<A, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.flatMap(json(request, mostBytes), (body) =>
    Effect.mapError(Schema.decodeUnknown(schema)(body), (error) =>
      RequestFault.ofIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
    )
  )
