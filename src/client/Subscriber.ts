import { Predicate } from "effect"
import { shown } from "../core/Storable.js"
import * as EventCore from "../handlers/Event.js"
import type { NoWindow, SubscriberOptions, WindowOptions } from "../queue/events/Event.js"
import { checkEvent, type EventDefinition } from "./EventDefinition.js"
import { defined, type JobOptions, type RetryOptions } from "./JobDefinition.js"
import { checkKnown, namesOf } from "./Options.js"
import * as PromiseHandler from "./PromiseHandler.js"
import type { Handler } from "./Recipe.js"
import { InvalidOptionError } from "./ShiftErrors.js"
import * as StandardSchema from "./StandardSchema.js"

/** How a subscriber handles events. */
export interface OnOptions<in Out> extends SubscriberOptions<Out>, RetryOptions {}

const onOptions = namesOf<OnOptions<never> & WindowOptions>({
  as: 0,
  if: 0,
  match: 0,
  past: 0,
  debounce: 0,
  max: 0,
  by: 0,
  queue: 0,
  attempts: 0,
  backoff: 0,
  jitter: 0,
  timeout: 0,
  priority: 0
})

/** Reads the options of a subscriber. Throws InvalidOptionError. @internal */
export const declared = <Out, Options extends SubscriberOptions<Out> & (WindowOptions | NoWindow)>(
  event: string,
  options: Options
) => {
  try {
    return EventCore.declared<Out, Options>(event, options)
  } catch (error) {
    throw error instanceof EventCore.InvalidSubscriber ? new InvalidOptionError(error.option, error.message) : error
  }
}

/** A validator of lists whose entries this validator accepts. */
const listOf = <In, Out>(
  schema: StandardSchema.StandardSchema<In, Out>
): StandardSchema.StandardSchema<ReadonlyArray<In>, ReadonlyArray<Out>> => {
  const joined = (all: ReadonlyArray<StandardSchema.Checked<Out>>): StandardSchema.Checked<ReadonlyArray<Out>> => {
    const issues = all.flatMap((each, place) =>
      (each.issues ?? []).map((issue) => ({ ...issue, path: [place, ...issue.path] }))
    )
    return issues.length > 0 ? { issues } : { value: all.map((each) => (each as { readonly value: Out }).value) }
  }
  const validate = (value: unknown) => {
    if (!Array.isArray(value)) return { issues: [{ message: "must be a list of events" }] }
    const all = value.map((each) => StandardSchema.check(schema, each))
    return all.some((each) => each instanceof Promise)
      ? Promise.all(all).then(joined)
      : joined(all as ReadonlyArray<StandardSchema.Checked<Out>>)
  }
  const items = StandardSchema.jsonSchemaOf(schema as StandardSchema.StandardSchema<never, unknown>)
  // References of a schema begin at its root.
  const isPlain = items !== undefined && !JSON.stringify(items).includes('"$ref"')
  const described = isPlain ? { jsonSchema: { input: () => ({ type: "array", items }) } } : {}
  return { "~standard": { version: 1, vendor: "nightshift", validate, ...described } }
}

/**
 * Makes a subscriber: a handler whose jobs are the events. Each event makes one job, with its data as payload and the event in
 * `meta.event`. With `debounce`, a job has a list of events: their data as payload, and `meta.events`.
 */
export const on: {
  <In, Out>(
    event: EventDefinition<In, Out>,
    options: OnOptions<NoInfer<Out>> & WindowOptions,
    run: PromiseHandler.Run<ReadonlyArray<Out>, unknown>
  ): Handler
  <In, Out>(
    event: EventDefinition<In, Out>,
    options: OnOptions<NoInfer<Out>> & NoWindow,
    run: PromiseHandler.Run<Out, unknown>
  ): Handler
} = <In, Out>(
  given: EventDefinition<In, Out>,
  options: OnOptions<Out> & (WindowOptions | NoWindow),
  run: PromiseHandler.Run<never, unknown>
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
  type Payload = Out | ReadonlyArray<Out>
  const { as, conditional, isList, ofKind, subscribes } = declared<Out, typeof options>(given.name, options)
  const payload = (isList ? listOf(given.schema) : given.schema) as StandardSchema.StandardSchema<unknown, Payload>
  const jobOptions: JobOptions<unknown, Payload, unknown, unknown> = { ...ofKind, payload }
  const kind = { ...defined(as, jobOptions).kind, subscribes }
  const handler = conditional(run as PromiseHandler.Run<Payload, unknown>)
  return PromiseHandler.of({}, PromiseHandler.make(kind, handler), {
    call: "on",
    name: as,
    options: { event: given, options },
    run
  })
}
