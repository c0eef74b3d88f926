import { Data, Deferred, type Duration, Effect, ExecutionStrategy, Exit, FiberId, Option, Schema, Scope } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as ChildProcess from "./ChildProcess.js"
import type { ChildReaper } from "./ChildReaper.js"
import { Lines } from "./Lines.js"
import { OutputTail } from "./OutputTail.js"
import * as ProcessGroup from "./ProcessGroup.js"

// A child process that serves many jobs. It writes a ready line, then answers each request line with one reply line and
// writes nothing else to stdout. An unsolicited line, a reply with another job's id or an unreadable reply breaks the
// child, because later replies could no longer be matched to requests.

/** A reply line of a child. */
export const Reply = Schema.Struct({
  id: Schema.String,
  status: Schema.Literal("ok", "error", "dead", "throttled"),
  message: Schema.optional(Schema.NullOr(Schema.String)),
  retry_after_secs: Schema.optional(Schema.NullOr(Schema.NonNegative)),
  result: Schema.optional(Schema.Unknown)
})
export type Reply = typeof Reply.Type

/** Bytes of stderr kept for error messages. */
const stderrBytes = 3 * 1024

const readReply = Schema.decodeUnknownOption(Schema.parseJson(Reply))

/** The child can no longer be used. */
export class ChildBroken extends Data.TaggedError("ChildBroken")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

export interface WorkerChildOptions {
  readonly command: ChildProcess.Command
  readonly isReady: (line: string) => boolean
  readonly startTimeout: Duration.Duration
  readonly maxLineBytes: number
}

export interface WorkerChild {
  readonly pid: number
  /** Sends one request and waits for its reply. Only one request may be open at a time. */
  readonly ask: (id: string, payload: unknown) => Effect.Effect<Reply, ChildBroken>
  /** Whether the child can take a request. */
  readonly isUsable: () => boolean
  /** Completes with the reason when the child breaks. */
  readonly broken: Effect.Effect<string>
  /** Ends the child's process group. */
  readonly close: Effect.Effect<void>
}

const shown = (line: string) => JSON.stringify(line.length > 200 ? `${line.slice(0, 200)}…` : line)

const describeEnd = ({ code, signal }: ChildProcess.Ended) =>
  signal === undefined ? `it exited with code ${code}` : `it was killed by ${signal}`

/** Delivers each line to the one caller that waits for it. */
class Conversation {
  private waiting: Deferred.Deferred<string, ChildBroken> | undefined
  broken: string | undefined
  readonly closed = Deferred.unsafeMake<string>(FiberId.none)

  readonly onLine = (line: string): void => {
    const { waiting } = this
    this.waiting = undefined
    if (waiting === undefined) this.break(`it wrote ${shown(line)} to stdout without a request`)
    else Deferred.unsafeDone(waiting, Exit.succeed(line))
  }

  readonly break = (reason: string): void => {
    this.broken ??= reason
    Deferred.unsafeDone(this.closed, Exit.succeed(this.broken))
    const { waiting } = this
    this.waiting = undefined
    if (waiting !== undefined) Deferred.unsafeDone(waiting, Exit.fail(new ChildBroken({ reason: this.broken })))
  }

  readonly nextLine: Effect.Effect<string, ChildBroken> = Effect.gen(this, function* () {
    if (this.broken !== undefined) return yield* new ChildBroken({ reason: this.broken })
    const waiting = yield* Deferred.make<string, ChildBroken>()
    this.waiting = waiting
    return yield* Deferred.await(waiting)
  })
}

const outputClosed = "it closed its output"

/**
 * Starts a child and waits until it is ready; interruption ends the child. It lives until `close` or the end of the
 * Scope.
 */
export const start = (
  reaper: ChildReaper,
  { command, isReady, maxLineBytes, startTimeout }: WorkerChildOptions
): Effect.Effect<WorkerChild, ChildBroken, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.flatMap(Effect.scope, (outer) => Scope.fork(outer, ExecutionStrategy.sequential))
    // Cached, so that a second caller also waits until the child has ended.
    const close = yield* Effect.cached(Effect.uninterruptible(Scope.close(scope, Exit.void)))
    const child = yield* ChildProcess.spawn(reaper, command).pipe(
      Scope.extend(scope),
      Effect.mapError(({ reason }) => new ChildBroken({ reason }))
    )
    const conversation = new Conversation()
    const stderr = new OutputTail(stderrBytes)
    const lines = new Lines(maxLineBytes, conversation.onLine, () =>
      conversation.break(`it wrote a line longer than ${maxLineBytes} bytes`)
    )
    child.stdout.on("data", lines.add).on("end", () => conversation.break(outputClosed))
    child.stderr.on("data", stderr.add)
    // The reply may still be in the pipe when the child exits, so drain first. Bounded, because a descendant may hold
    // the output open.
    yield* child.ended.pipe(
      Effect.zipLeft(ProcessGroup.within(child.drained, "500 millis")),
      Effect.map((ended) => conversation.break(describeEnd(ended))),
      Effect.interruptible,
      Effect.forkIn(scope)
    )

    /**
     * Ends the child and returns the reason with the tail of its stderr, which is complete once the child has ended.
     */
    const endBroken = (reason: string): Effect.Effect<ChildBroken> =>
      Effect.gen(function* () {
        const ended = reason === outputClosed ? yield* ProcessGroup.within(child.ended, "500 millis") : Option.none()
        yield* close
        const how = Option.match(ended, { onNone: () => reason, onSome: describeEnd })
        const tail = stderr.text(stderrBytes).trim()
        const refusal = child.refusalIn(tail)
        if (refusal !== undefined) return new ChildBroken({ reason: refusal })
        return new ChildBroken({ reason: tail === "" ? how : `${how}: ${tail}` })
      })
    const nextLine = Effect.catchAll(conversation.nextLine, ({ reason }) =>
      Effect.flatMap(endBroken(reason), Effect.fail)
    )

    const ready = nextLine.pipe(
      Effect.timeoutTo({
        duration: startTimeout,
        onSuccess: (line) =>
          isReady(line) ? undefined : `it wrote ${shown(line)} to stdout instead of its ready line`,
        onTimeout: () => `it was not ready after ${DurationText.format(startTimeout)}`
      }),
      Effect.flatMap((fault) => (fault === undefined ? Effect.void : Effect.flatMap(endBroken(fault), Effect.fail)))
    )
    yield* Effect.onExit(Effect.interruptible(ready), (exit) => (Exit.isSuccess(exit) ? Effect.void : close))

    const ask: WorkerChild["ask"] = (id, payload) =>
      Effect.gen(function* () {
        child.stdin.write(`${JSON.stringify({ id, payload })}\n`)
        const line = yield* nextLine
        const reply = Option.getOrUndefined(readReply(line))
        if (reply !== undefined && reply.id === id) return reply
        const fault =
          reply === undefined
            ? `it sent an invalid reply: ${shown(line)}`
            : `it replied for another job id, ${shown(reply.id)}`
        return yield* Effect.flatMap(endBroken(fault), Effect.fail)
      })

    return {
      ask,
      close,
      pid: child.pid,
      broken: Deferred.await(conversation.closed),
      isUsable: () => conversation.broken === undefined
    }
  }).pipe(Effect.uninterruptible)
