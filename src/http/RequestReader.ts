import type { IncomingMessage, ServerResponse } from "node:http"
import { Effect } from "effect"
import { BadRequest } from "./RequestErrors.js"

const broken = () => new BadRequest({ message: "The body ended before its end." })

/** What a request's body brings next, nothing at its end. Nothing is read ahead of whoever asks. */
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

/** What may still come after we have answered, before we hang up. */
const patience = { bytes: 4 * 1024 * 1024, time: "2 seconds" } as const

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
 * Hangs up on a body that we answered before its end. Not at once: closing a connection on which more is coming destroys
 * our answer on its way, and many clients read it only when they have sent a little more.
 */
export const hangUp = (source: IncomingMessage, response: ServerResponse): Effect.Effect<void> => {
  // Now, and not when the effect runs: once the answer is written, Node itself would read the whole rest.
  source.read(0)
  return Effect.gen(function* () {
    yield* finished(response)
    let bytes = 0
    while (bytes <= patience.bytes) {
      const piece = yield* next(source)
      if (piece === undefined) return
      bytes += piece.length
    }
  }).pipe(
    // Forked where nothing can be interrupted it could not be either, and then nothing times out.
    Effect.interruptible,
    Effect.timeoutOption(patience.time),
    Effect.ignore,
    Effect.zipRight(Effect.sync(() => (source.readableEnded ? undefined : source.destroy())))
  )
}
