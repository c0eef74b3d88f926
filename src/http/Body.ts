import type { IncomingMessage, ServerResponse } from "node:http"
import { Readable } from "node:stream"
import type { ReadableStream } from "node:stream/web"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, ParseResult, Schema } from "effect"
import * as JsonNumbers from "../core/JsonNumbers.js"
import { isDeeperThan } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import {
  BadRequest,
  BodyTooLarge,
  ContentTypeRefused,
  faultAt,
  faultOfIssues,
  RequestTimedOut
} from "./RequestErrors.js"

/** Timeout for receiving a body. */
const timeout = "60 seconds"

const jsonType = /^application\/json *(?:; *charset *= *"?utf-8"? *)?$/i

/** Returns the unsupported content type or encoding, or undefined. A missing type is accepted. */
export const refusedType = (type: string | undefined, encoding: string | undefined): string | undefined => {
  if (type !== undefined && !jsonType.test(type.trim())) return type
  return encoding === undefined || encoding.toLowerCase() === "identity" ? undefined : `encoded as ${encoding}`
}

/** A stream whose end says whether it is complete: that of node, or one made from a web standard request. */
type Source = Readable & { readonly complete?: boolean }

const alreadyRead = () =>
  new BadRequest({
    message:
      "Another handler of this process has already read the body. Mount Mission Control in front of body parsers such as express.json()."
  })

const wasRead = ({ source }: HttpServerRequest.HttpServerRequest): boolean =>
  source instanceof Readable ? source.readableEnded : (source as Request).bodyUsed

/** The body of a request, whichever server received it. */
const sourceOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<Source, BadRequest> => {
  if (wasRead(request)) return alreadyRead()
  const { source } = request
  if (source instanceof Readable) return Effect.succeed(source)
  const { body } = source as Request
  return Effect.succeed(body === null ? Readable.from([]) : Readable.fromWeb(body as ReadableStream))
}

const read = (source: Source, maxBytes: number): Effect.Effect<Buffer, BodyTooLarge | BadRequest> =>
  Effect.gen(function* () {
    const body = new GrowingBuffer()
    for (;;) {
      const piece = yield* next(source)
      if (piece === undefined) return body.whole()
      body.add(piece)
      if (body.bytes > maxBytes) return yield* new BodyTooLarge({ maxBytes })
    }
  })

/** Levels of a body. Values that are stored have a limit of their own and may be a few levels deep in their request. */
const maxNesting = limits.nesting + 20

const utf8 = new TextDecoder("utf-8", { fatal: true })

/** A JSON body and its text. */
interface Parsed {
  readonly text: string
  readonly value: unknown
}

const parse = (bytes: Buffer): Effect.Effect<Parsed, BadRequest> =>
  Effect.suspend(() => {
    try {
      const text = utf8.decode(bytes)
      const value: unknown = JSON.parse(text)
      if (isDeeperThan(value, maxNesting)) return faultAt([], `must not be nested more than ${maxNesting} levels deep`)
      return Effect.succeed({ text, value })
    } catch (error) {
      const message =
        error instanceof SyntaxError
          ? `The body is not JSON: ${error.message}.`
          : "The body is not JSON: it is not valid UTF-8."
      return new BadRequest({ message })
    }
  })

/** Reads a body as it is. Rejects a too large Content-Length before reading. */
export const bytes = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<Buffer, BadRequest | BodyTooLarge | RequestTimedOut> =>
  Effect.gen(function* () {
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) return yield* new BodyTooLarge({ maxBytes })
    const source = yield* sourceOf(request)
    return yield* Effect.timeoutFail(read(source, maxBytes), {
      duration: timeout,
      onTimeout: () => new RequestTimedOut({ message: "The body took longer than 60 s to arrive. Send it again." })
    })
  })

const checkType = ({ headers }: HttpServerRequest.HttpServerRequest): Effect.Effect<void, ContentTypeRefused> => {
  const type = headers["content-type"]
  if (type === undefined) return new ContentTypeRefused({ given: "missing (no Content-Type)" })
  const refused = refusedType(type, headers["content-encoding"])
  return refused === undefined ? Effect.void : new ContentTypeRefused({ given: refused })
}

/** Reads a JSON body as `json` does, except that its numbers are not checked. */
export const parsed = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<Parsed, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.zipRight(checkType(request), Effect.flatMap(bytes(request, maxBytes), parse))

/** The error of a number that would be stored as another one. */
export const lostNumber = (lost: JsonNumbers.LostNumber, body: unknown): BadRequest =>
  faultAt(lost.path, JsonNumbers.reasonOf(lost), body)

const withKeptNumbers = ({ text, value }: Parsed): Effect.Effect<unknown, BadRequest> => {
  const lost = JsonNumbers.lostIn(text)
  return lost === undefined ? Effect.succeed(value) : lostNumber(lost, value)
}

/** Reads a JSON body. Rejects a wrong Content-Type or a too large Content-Length before reading. */
export const json = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<unknown, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.flatMap(parsed(request, maxBytes), withKeptNumbers)

/** Reads a JSON body and decodes it. Fails with the first invalid field. */
export const decoded = <A, I>(
  request: HttpServerRequest.HttpServerRequest,
  schema: Schema.Schema<A, I>,
  maxBytes: number
): Effect.Effect<A, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.flatMap(json(request, maxBytes), (body) => decodedJson(body, schema))

/** Whether another handler has looked for a body, and there is none. */
const isReadWithoutBody = (request: HttpServerRequest.HttpServerRequest): boolean =>
  wasRead(request) &&
  request.headers["transfer-encoding"] === undefined &&
  !(Number(request.headers["content-length"]) > 0)

/** Like `decoded`, for a body that may be omitted. Without one, returns what the schema makes of `{}`. */
export const decodedIfAny = <A, I>(
  request: HttpServerRequest.HttpServerRequest,
  schema: Schema.Schema<A, I>,
  maxBytes: number
): Effect.Effect<A, BadRequest | BodyTooLarge | ContentTypeRefused | RequestTimedOut> =>
  Effect.flatMap(isReadWithoutBody(request) ? Effect.succeed(Buffer.alloc(0)) : bytes(request, maxBytes), (given) =>
    Effect.flatMap(
      given.length === 0
        ? Effect.succeed({})
        : Effect.zipRight(checkType(request), Effect.flatMap(parse(given), withKeptNumbers)),
      (body) => decodedJson(body, schema)
    )
  )

/** Decodes a JSON body. Fails with the first invalid field. */
export const decodedJson = <A, I>(body: unknown, schema: Schema.Schema<A, I>): Effect.Effect<A, BadRequest> =>
  Effect.mapError(Schema.decodeUnknown(schema)(body), (error) =>
    faultOfIssues(ParseResult.ArrayFormatter.formatErrorSync(error), body)
  )

const broken = () =>
  new BadRequest({ message: "The request body was cut off: the connection closed before it was complete." })

/**
 * Reads the next piece of a body, or undefined at its end. Does not read ahead, so a slow consumer slows the sender.
 */
export const next = (source: Source): Effect.Effect<Buffer | undefined, BadRequest> =>
  Effect.async((resume) => {
    const readPiece = () => {
      const piece: unknown = source.read()
      if (Buffer.isBuffer(piece)) finish(Effect.succeed(piece))
      else if (source.readableEnded) finish(Effect.succeed(undefined))
    }
    const end = () => finish(Effect.succeed(undefined))
    const fail = () => finish(source.complete ? Effect.succeed(undefined) : broken())
    const leave = () => {
      source.off("readable", readPiece).off("end", end).off("close", fail).off("error", fail)
    }
    const finish = (result: Effect.Effect<Buffer | undefined, BadRequest>) => {
      leave()
      resume(result)
    }
    if (source.destroyed && !source.readableEnded) return resume(broken())
    source.on("readable", readPiece).once("end", end).once("close", fail).once("error", fail)
    readPiece()
    return Effect.sync(leave)
  })

/** How much of an unread body to drain after the response before closing the connection. */
const drainLimits = { bytes: 4 * 1024 * 1024, time: "2 seconds" } as const

const finished = (response: ServerResponse): Effect.Effect<void> =>
  Effect.async((resume) => {
    const done = () => resume(Effect.void)
    if (response.writableFinished || response.closed) return done()
    response.once("finish", done).once("close", done)
    return Effect.sync(() => {
      response.off("finish", done).off("close", done)
    })
  })

/**
 * Closes a connection whose body was not read to its end. Drains it for a while first: closing a connection with unread
 * data resets it, which can destroy the response before the client reads it.
 */
export const closeUnread = (source: IncomingMessage, response: ServerResponse): Effect.Effect<void> => {
  // Call it now and not when the effect runs: once the response is written, node itself would read the whole rest.
  source.read(0)
  return Effect.gen(function* () {
    yield* finished(response)
    let bytes = 0
    while (bytes <= drainLimits.bytes) {
      const piece = yield* next(source)
      if (piece === undefined) return
      bytes += piece.length
    }
  }).pipe(
    // The fork inherits an uninterruptible region, in which the timeout could not fire.
    Effect.interruptible,
    Effect.timeoutOption(drainLimits.time),
    Effect.ignore,
    Effect.zipRight(Effect.sync(() => (source.readableEnded ? undefined : source.destroy())))
  )
}

/**
 * Collects bytes that arrive in pieces. Keeps the first piece without copying; then the buffer doubles, so a million
 * one-byte pieces cost neither a million objects nor a million copies.
 */
export class GrowingBuffer {
  bytes = 0
  private buffer: Buffer = Buffer.alloc(0)

  /** Continues a body of which this is the first piece. */
  static from(piece: Buffer): GrowingBuffer {
    const body = new GrowingBuffer()
    body.add(piece)
    return body
  }

  /** Allocated bytes, up to twice the bytes received. */
  get capacity(): number {
    return this.buffer.length
  }

  add(piece: Buffer): void {
    const needed = this.bytes + piece.length
    if (this.bytes === 0) this.buffer = piece
    else {
      if (needed > this.buffer.length) {
        const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.buffer.length))
        this.buffer.copy(grown, 0, 0, this.bytes)
        this.buffer = grown
      }
      piece.copy(this.buffer, this.bytes)
    }
    this.bytes = needed
  }

  /** The bytes received. Valid until the next `add`. */
  whole(): Buffer {
    return this.buffer.subarray(0, this.bytes)
  }
}
