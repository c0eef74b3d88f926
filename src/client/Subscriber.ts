import { Predicate } from "effect"
import { shown } from "../core/Storable.js"
import * as EventCore from "../handlers/Event.js"
import type { SubscriberOptions } from "../queue/events/Event.js"
import { checkEvent, type EventDefinition } from "./EventDefinition.js"
import { defined, type JobOptions, type RetryOptions } from "./JobDefinition.js"
import { checkKnown, namesOf } from "./Options.js"
import * as PromiseHandler from "./PromiseHandler.js"
import type { Handler } from "./Recipe.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** How a subscriber handles events. */
export interface OnOptions<in Out> extends SubscriberOptions<Out>, RetryOptions {}

const onOptions = namesOf<OnOptions<never>>({
  as: 0,
  if: 0,
  match: 0,
  past: 0,
  queue: 0,
  attempts: 0,
  backoff: 0,
  jitter: 0,
  timeout: 0,
  priority: 0
})

/** Reads the options of a subscriber. Throws InvalidOptionError. @internal */
export const declared: typeof EventCore.declared = (name, options) => {
  try {
    return EventCore.declared(name, options)
  } catch (error) {
    throw error instanceof EventCore.InvalidSubscriber ? new InvalidOptionError(error.option, error.message) : error
  }
}

/**
 * Makes a subscriber: a handler whose jobs are the events. Each event makes one job, with its data as payload and the event in
 * `meta.event`.
 */
export const on = <In, Out>(
  given: EventDefinition<In, Out>,
  options: OnOptions<NoInfer<Out>>,
  run: PromiseHandler.Run<Out, unknown>
): Handler => {
  checkEvent("on", given)
  if (!Predicate.isRecord(options) || typeof options.as !== "string")
    throw new InvalidOptionError(
      "as",
      `on("${given.name}") needs a name for the subscriber: on(event, { as: "send-receipt" }, …).`
    )
  checkKnown(options, onOptions, `an option of the subscriber "${options.as}"`)
  if (typeof run !== "function")
    throw new InvalidOptionError(
      "handler",
      `The third argument of on("${given.name}") must be a function, got ${shown(run)}.`
    )
  const { as, conditional, ofKind, subscribes } = declared<Out, OnOptions<Out>>(given.name, options)
  const jobOptions: JobOptions<In, Out, unknown, unknown> = { ...ofKind, payload: given.schema }
  const kind = { ...defined(as, jobOptions).kind, subscribes }
  return PromiseHandler.of({}, PromiseHandler.make(kind, conditional(run)), {
    call: "on",
    name: as,
    options: { event: given, options },
    run
  })
}
