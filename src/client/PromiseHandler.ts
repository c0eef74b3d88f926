import { Effect, Predicate } from "effect"
import { issuesText } from "../core/Issues.js"
import * as Outcome from "../core/Outcome.js"
import * as Core from "../handlers/Handler.js"
import type { JobKind } from "../queue/Job.js"
import type { Queue } from "../queue/Queue.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import * as Enqueue from "./Enqueue.js"
import * as HandlerTransaction from "./HandlerTransaction.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import type { Decoded } from "./StandardSchema.js"

/** Runs the jobs of a kind. Pass it to `worker` or `testShift`. */
export interface Handler extends Core.Handler<Queue | RateLimits> {}

/** The job as passed to a handler. */
export interface HandlerContext extends Omit<Core.PromiseJobContext, "enqueue" | "id" | "run"> {
  /** UUID of the job. The same in every attempt, so it can serve as an idempotency key. */
  readonly id: string
  /** Stores another job, in the handler's transaction if it has one. */
  readonly enqueue: Enqueue.EnqueueOne<Omit<Enqueue.EnqueueOptions, "tx">>
}

/** The job and the tools of a handler in a transaction: `tx` is its connection. */
export interface TransactionContext extends HandlerContext, HandlerTransaction.HandlerTransaction {}

/** What a handler may return: the job's result, or how else the attempt ended. */
type HandlerResult<R> = R | Outcome.Outcome

export type Run<Payload, Result> = (
  payload: Payload,
  context: HandlerContext
) => Promise<HandlerResult<Result>> | HandlerResult<Result>

export type RunInTransaction<Payload, Result> = (
  payload: Payload,
  context: TransactionContext
) => Promise<HandlerResult<Result>> | HandlerResult<Result>

/** Makes a handler from an async function. */
export const make = <Payload, Result>(kind: JobKind<Decoded>, run: Run<Payload, Result>): Handler =>
  Core.promise(kind, async (decoded, context) => {
    const checked = await decoded
    // Only asynchronous validators fail here: synchronous ones run before the handler is called.
    if (checked.issues !== undefined)
      return Outcome.dead(`the payload is invalid: ${issuesText("payload", checked.issues)}`)
    // Adds to the object instead of copying it, which would count as reading its signal.
    return run(checked.value as Payload, Object.assign(context, { enqueue: Enqueue.inHandler(context.run) }))
  })

/** Makes a handler whose writes through `tx` commit with the job's completion. */
export const makeInTransaction = <Payload, Result>(
  kind: JobKind<Decoded>,
  run: RunInTransaction<Payload, Result>
): Handler =>
  Core.makeInTransaction(kind, (decoded: Decoded, job) =>
    Effect.flatMap(HandlerTransaction.current, (transaction) => {
      const inner = make<Payload, Result>(kind, (payload, context) => run(payload, Object.assign(context, transaction)))
      return inner.run(decoded as never, job)
    })
  )

/** Throws InvalidOptionError if an entry is not a handler, or if two are for one kind. */
export const checkHandlers = (handlers: ReadonlyArray<unknown>): void => {
  const kinds = new Set<string>()
  for (const [index, handler] of handlers.entries()) {
    const kind = Predicate.hasProperty(handler, "kind") ? (handler.kind as { readonly name: string }) : undefined
    if (kind === undefined || !Predicate.hasProperty(handler, "run")) {
      throw new InvalidOptionError(
        "handlers",
        kind === undefined
          ? `handlers[${index}] is not a handler: pass what job.handle(…) returns.`
          : `handlers[${index}] is the job "${kind.name}", not a handler: pass ${kind.name}.handle(async (payload) => …).`
      )
    }
    if (kinds.has(kind.name)) {
      throw new InvalidOptionError("handlers", `handlers has two handlers for "${kind.name}". Pass one of them.`)
    }
    kinds.add(kind.name)
  }
}
