import type { IncomingMessage, ServerResponse } from "node:http"
import { Effect } from "effect"
import { BadRequest } from "./RequestErrors.js"

const broken = () =>
  new BadRequest({ message: "The request body was cut off: the connection closed before it was complete." })

/**
 * Reads the next piece of a body, or undefined at its end. Does not read ahead, so a slow consumer slows the sender.
 */
export const next = (source: IncomingMessage): Effect.Effect<Buffer | undefined, BadRequest> =>
  Effect.async((resume) => {
    const look = () => {
      const piece: unknown = source.read()
      if (Buffer.isBuffer(piece)) finish(Effect.succeed(piece))
      else if (source.readableEnded) finish(Effect.succeed(undefined))
    }
    const end = () => finish(Effect.succeed(undefined))
    const fail = () => finish(source.complete ? Effect.succeed(undefined) : broken())
    const leave = () => {
      source.off("readable", look).off("end", end).off("close", fail).off("error", fail)
    }
    const finish = (result: Effect.Effect<Buffer | undefined, BadRequest>) => {
      leave()
      resume(result)
    }
    if (source.destroyed && !source.readableEnded) return resume(broken())
    source.on("readable", look).once("end", end).once("close", fail).once("error", fail)
    look()
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
export const hangUp = (source: IncomingMessage, response: ServerResponse): Effect.Effect<void> => {
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
