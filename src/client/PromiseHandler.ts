import { Effect } from "effect"
import { issuesText } from "../core/Issues.js"
import * as Outcome from "../core/Outcome.js"
import * as Core from "../handlers/Handler.js"
import type { PromiseContext } from "../handlers/PromiseContext.js"
import type { Events } from "../queue/events/Events.js"
import type { JobKind } from "../queue/Job.js"
import type { Queue } from "../queue/Queue.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import * as Enqueue from "./Enqueue.js"
import * as Publishing from "./EventDefinition.js"
import * as HandlerTransaction from "./HandlerTransaction.js"
import { type Handler, type Recipe, recipe } from "./Recipe.js"
import type { Decoded } from "./StandardSchema.js"

/** The job as passed to a handler. */
export interface HandlerContext extends PromiseContext {
  /** Stores another job, in the handler's transaction if it has one. */
  readonly enqueue: Enqueue.EnqueueOne<Omit<Enqueue.EnqueueOptions, "tx">>
  /** Publishes an event, in the handler's transaction if it has one. */
  readonly publish: Publishing.Publish<Omit<Publishing.PublishOptions, "tx">>
}

/** The job and the tools of a handler in a transaction: `tx` is its connection. */
export interface TransactionContext extends HandlerContext, HandlerTransaction.HandlerTransaction {}

/** A handler as workers run it. @internal */
export interface CoreHandler extends Core.Handler<Queue | Events | RateLimits | Workflows | Transactions> {}

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

/** Makes a handler from an async function. @internal */
export const make = <Payload, Result>(kind: JobKind<Decoded>, run: Run<Payload, Result>): CoreHandler =>
  Core.promise(kind, async (decoded, context) => {
    const checked = await decoded
    // Only asynchronous validators fail here: synchronous ones run before the handler is called.
    if (checked.issues !== undefined)
      return Outcome.dead(`the payload is invalid: ${issuesText("payload", checked.issues)}`)
    // Adds to the object instead of copying it, which would count as reading its signal.
    return run(
      checked.value as Payload,
      Object.assign(context, {
        enqueue: Enqueue.inHandler(context.run),
        publish: Publishing.inHandler(context.run as never)
      })
    )
  })

/** Makes a handler whose writes through `tx` commit with the job's completion. @internal */
export const makeInTransaction = <Payload, Result>(
  kind: JobKind<Decoded>,
  run: RunInTransaction<Payload, Result>
): CoreHandler =>
  Core.makeInTransaction(kind, (decoded: Decoded, job) =>
    Effect.flatMap(HandlerTransaction.current, (transaction) => {
      const inner = make<Payload, Result>(kind, (payload, context) => run(payload, Object.assign(context, transaction)))
      return inner.run(decoded as never, job)
    })
  )

/** The handlers that workers of this copy run, by what programs hold. */
const cores = new WeakMap<object, CoreHandler>()

/** Makes an object, or a function, the handler that programs hold. Nothing of Effect is in it. @internal */
export const of = <A extends object>(held: A, core: CoreHandler, made: Recipe): A & Handler => {
  cores.set(held, core)
  const { attempts, name, priority, queue, routed, version } = core.kind
  return Object.assign(held, { kind: { name, version, queue, routed, attempts, priority }, [recipe]: made })
}

/** The handler for workers, if this copy has made it. @internal */
export const coreOf = (handler: Handler): CoreHandler | undefined => cores.get(handler)
