import { Data, Deferred, type Duration, Effect, ExecutionStrategy, Exit, FiberId, Option, Schema, Scope } from "effect"
import * as DurationText from "../core/DurationText.js"
import * as ChildProcess from "./ChildProcess.js"
import type { ChildReaper } from "./ChildReaper.js"
import { Lines } from "./Lines.js"
import { OutputTail } from "./OutputTail.js"
import * as ProcessGroup from "./ProcessGroup.js"

// A child that lives on between jobs. It says when it is ready, and then answers each line with one line; in between it says
// nothing. Whatever else happens, an answer to nobody, another's answer, no answer at all, breaks it: nobody can know any
// more which answer belongs to which question.

/** What a child answers. */
export const Reply = Schema.Struct({
  id: Schema.String,
  status: Schema.Literal("ok", "error", "dead", "throttled"),
  message: Schema.optional(Schema.NullOr(Schema.String)),
  retry_after_secs: Schema.optional(Schema.NullOr(Schema.NonNegative)),
  result: Schema.optional(Schema.Unknown)
})
export type Reply = typeof Reply.Type

/** What is kept of its stderr, for the errors of jobs. */
const stderrBytes = 3 * 1024

const readReply = Schema.decodeUnknownOption(Schema.parseJson(Reply))

/** The child is of no use any more. */
export class ChildBroken extends Data.TaggedError("ChildBroken")<{ readonly reason: string }> {
  override get message(): string {
    return this.reason
  }
}

export interface WorkerChildOptions {
  readonly command: ChildProcess.Command
  readonly isReady: (line: string) => boolean
  readonly startTimeout: Duration.Duration
  readonly mostLineBytes: number
}

export interface WorkerChild {
  readonly pid: number
  /** Asks one thing; nobody else may ask before the answer. */
  readonly ask: (id: string, payload: unknown) => Effect.Effect<Reply, ChildBroken>
  /** Whether it can be asked. */
  readonly isFit: () => boolean
  /** Why it cannot be asked any more, once it cannot. */
  readonly broken: Effect.Effect<string>
  /** Ends it and all that it started. */
  readonly close: Effect.Effect<void>
}

const shown = (line: string) => JSON.stringify(line.length > 200 ? `${line.slice(0, 200)}…` : line)

const describeEnd = ({ code, signal }: ChildProcess.Ended) =>
  signal === undefined ? `it ended with exit code ${code}` : `it was ended by ${signal}`

/** One wait for the next line at a time. */
class Conversation {
  private waiting: Deferred.Deferred<string, ChildBroken> | undefined
  broken: string | undefined
  readonly over = Deferred.unsafeMake<string>(FiberId.none)

  readonly heard = (line: string): void => {
    const { waiting } = this
    this.waiting = undefined
    if (waiting === undefined) this.break(`it wrote ${shown(line)} without being asked`)
    else Deferred.unsafeDone(waiting, Exit.succeed(line))
  }

  readonly break = (reason: string): void => {
    this.broken ??= reason
    Deferred.unsafeDone(this.over, Exit.succeed(this.broken))
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

/** Starts a child and waits until it is ready; interrupted, it ends the child. It lives until it is closed, or the Scope. */
export const start = (
  keeper: ChildReaper,
  { command, isReady, mostLineBytes, startTimeout }: WorkerChildOptions
): Effect.Effect<WorkerChild, ChildBroken, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.flatMap(Effect.scope, (outer) => Scope.fork(outer, ExecutionStrategy.sequential))
    // Whoever comes second waits for the end, too.
    const close = yield* Effect.cached(Effect.uninterruptible(Scope.close(scope, Exit.void)))
    const child = yield* ChildProcess.spawn(keeper, command).pipe(
      Scope.extend(scope),
      Effect.mapError(({ reason }) => new ChildBroken({ reason }))
    )
    const conversation = new Conversation()
    const stderr = new OutputTail(stderrBytes)
    const lines = new Lines(mostLineBytes, conversation.heard, () =>
      conversation.break(`it wrote a line longer than ${mostLineBytes} bytes`)
    )
    child.stdout.on("data", lines.add).on("end", () => conversation.break(outputClosed))
    child.stderr.on("data", stderr.add)
    // What it wrote last may be its answer, and is still on the way; who holds its output open may be somebody else.
    yield* child.ended.pipe(
      Effect.zipLeft(ProcessGroup.within(child.drained, "500 millis")),
      Effect.map((ended) => conversation.break(describeEnd(ended))),
      Effect.interruptible,
      Effect.forkIn(scope)
    )

    /** Ends it, and says why it had to: with its last words, all of which have been read by then. */
    const giveUp = (reason: string): Effect.Effect<ChildBroken> =>
      Effect.gen(function* () {
        const ended = reason === outputClosed ? yield* ProcessGroup.within(child.ended, "500 millis") : Option.none()
        yield* close
        const how = Option.match(ended, { onNone: () => reason, onSome: describeEnd })
        const words = stderr.text(stderrBytes).trim()
        const refusal = child.refusalIn(words)
        if (refusal !== undefined) return new ChildBroken({ reason: refusal })
        return new ChildBroken({ reason: words === "" ? how : `${how}: ${words}` })
      })
    const nextLine = Effect.catchAll(conversation.nextLine, ({ reason }) => Effect.flatMap(giveUp(reason), Effect.fail))

    const ready = nextLine.pipe(
      Effect.timeoutTo({
        duration: startTimeout,
        onSuccess: (line) => (isReady(line) ? undefined : `it wrote ${shown(line)} before it was ready`),
        onTimeout: () => `it was not ready after ${DurationText.format(startTimeout)}`
      }),
      Effect.flatMap((fault) => (fault === undefined ? Effect.void : Effect.flatMap(giveUp(fault), Effect.fail)))
    )
    yield* Effect.onExit(Effect.interruptible(ready), (exit) => (Exit.isSuccess(exit) ? Effect.void : close))

    const ask: WorkerChild["ask"] = (id, payload) =>
      Effect.gen(function* () {
        child.stdin.write(`${JSON.stringify({ id, payload })}\n`)
        const line = yield* nextLine
        const reply = Option.getOrUndefined(readReply(line))
        if (reply !== undefined && reply.id === id) return reply
        const fault = reply === undefined ? `it answered ${shown(line)}` : `it answered for ${shown(reply.id)}`
        return yield* Effect.flatMap(giveUp(fault), Effect.fail)
      })

    return {
      ask,
      close,
      pid: child.pid,
      broken: Deferred.await(conversation.over),
      isFit: () => conversation.broken === undefined
    }
  }).pipe(Effect.uninterruptible)
