import { Predicate } from "effect"
import { webhookHandler } from "./EndpointAdmin.js"
import type { EventDefinition } from "./EventDefinition.js"
import { type JobOptions, job } from "./JobDefinition.js"
import { type CoreHandler, coreOf, type Run, type RunInTransaction } from "./PromiseHandler.js"
import type { PushOptions } from "./PushHandler.js"
import { type Handler, type Recipe, recipe } from "./Recipe.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import { type OnOptions, on } from "./Subscriber.js"
import type { Step } from "./workflow/Step.js"
import { type WorkflowOptions, workflow } from "./workflow/WorkflowDefinition.js"

/** Whether a value is a handler that `nightshift/client` made, in this copy or in another. */
export const isPromiseHandler = (value: unknown): value is Handler => Predicate.hasProperty(value, recipe)

const made = ({ call, name, options, run }: Recipe): Handler | undefined => {
  if (call === "workflow")
    return workflow(
      name,
      options as WorkflowOptions<unknown, unknown, unknown>,
      run as (payload: unknown, step: Step) => Promise<unknown>
    )
  if (call === "webhooks") return webhookHandler()
  if (call === "on") {
    const given = options as { readonly event: EventDefinition<unknown>; readonly options: OnOptions<unknown> }
    return on(given.event, given.options, run as Run<unknown, unknown>)
  }
  const kind = job(name, options as JobOptions<unknown, unknown, unknown, unknown>)
  if (call === "push") return kind.push(run as PushOptions)
  if (call === "handle") return kind.handle(run as Run<unknown, unknown>)
  return call === "handleInTransaction"
    ? kind.handleInTransaction(run as RunInTransaction<unknown, unknown>)
    : undefined
}

/** The handler for the workers of this copy of Effect. */
export const ofRecipe = (handler: Handler): CoreHandler => {
  const again = () => {
    const own = made(handler[recipe])
    return own === undefined ? undefined : coreOf(own)
  }
  const core = coreOf(handler) ?? again()
  if (core === undefined) throw new Error(`The handler for "${handler.kind.name}" was made by an incompatible version.`)
  return core
}

const faultOf = (entry: unknown, index: number): string => {
  const kind = Predicate.hasProperty(entry, "kind") ? (entry.kind as { readonly name: string }) : undefined
  if (kind === undefined) return `handlers[${index}] is not a handler: pass what job.handle(…) returns.`
  return Predicate.hasProperty(entry, "run")
    ? `handlers[${index}], for "${kind.name}", was made with Effect: pass it to Nightshift.layer of "nightshift", or make it with job.handle(…).`
    : `handlers[${index}] is the job "${kind.name}", not a handler: pass ${kind.name}.handle(async (payload) => …).`
}

/** The handlers for a worker. Throws InvalidOptionError if an entry is not a handler, or if two are for one kind. */
export const ofRecipes = (handlers: ReadonlyArray<unknown>): ReadonlyArray<CoreHandler> => {
  const kinds = new Set<string>()
  return handlers.flatMap((handler, index) => {
    if (!isPromiseHandler(handler)) throw new InvalidOptionError("handlers", faultOf(handler, index))
    const { name } = handler.kind
    if (kinds.has(name))
      throw new InvalidOptionError("handlers", `handlers has two handlers for "${name}". Pass one of them.`)
    kinds.add(name)
    const core = ofRecipe(handler)
    return [core, ...(core.also ?? [])]
  })
}
