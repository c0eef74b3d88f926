import type { IncomingMessage } from "node:http"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { toIncomingMessage } from "@effect/platform-node/NodeHttpServerRequest"
import { Effect, ParseResult, Schema } from "effect"
import * as JsonNumbers from "../core/JsonNumbers.js"
import { BadRequest, BodyTooLarge, ContentTypeRefused, RequestTimedOut } from "./RequestErrors.js"
import * as RequestFault from "./RequestFault.js"

/** Timeout for receiving a body. */
const timeout = "60 seconds"

const refusedType = (headers: HttpServerRequest.HttpServerRequest["headers"]): string | undefined => {
  const type = headers["content-type"]
  if (type === undefined) return "missing (no Content-Type)"
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
    const broken = () =>
      finish(
        Effect.fail(
          new BadRequest({ message: "The request body was cut off: the connection closed before it was complete." })
        )
      )
    const leave = () => {
      source.off("data", take).off("end", end).off("close", broken).off("error", broken)
      // After the response, the server reads the rest for a bounded time and then closes the connection.
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
          : "The body is not JSON: it is not valid UTF-8."
      return new BadRequest({ message })
    }
  })

/** Reads a JSON body. Rejects a wrong Content-Type or a too large Content-Length before reading. */
export const json = (
  request: HttpServerRequest.HttpServerRequest,
  mostBytes: number
): Effect.Effect<unknown, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.gen(function* () {
    const refused = refusedType(request.headers)
    if (refused !== undefined) return yield* new ContentTypeRefused({ given: refused })
    if (Number(request.headers["content-length"] ?? 0) > mostBytes) return yield* new BodyTooLarge({ mostBytes })
    const bytes = yield* Effect.timeoutFail(read(toIncomingMessage(request), mostBytes), {
      duration: timeout,
      onTimeout: () => new RequestTimedOut({ message: "The body took longer than 60 s to arrive. Send it again." })
    })
    return yield* parse(bytes)
  })

/** Reads a JSON body and decodes it. Fails with the first invalid field. */
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
