import { Predicate } from "effect"
import type { DurationInput } from "../core/DurationInput.js"
import { shown } from "../core/Storable.js"
import * as EventCore from "../handlers/Event.js"
import { checkEvent, type EventDefinition } from "./EventDefinition.js"
import { defined, type JobOptions, type RetryOptions } from "./JobDefinition.js"
import { checkKnown, durationOf, namesOf } from "./Options.js"
import * as PromiseHandler from "./PromiseHandler.js"
import type { Handler } from "./Recipe.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** How a subscriber handles events. */
export interface OnOptions<in Out> extends RetryOptions {
  /** Name of the subscriber: the kind of its jobs. Do not change it, or use it for another handler. */
  readonly as: string
  /** Runs at the start of each job. If it returns false, the job is done and the handler is not called. [all events] */
  readonly if?: ((data: Out) => boolean) | undefined
  /** Values that an event must have, by path: `{ "data.country": "DE" }`. Other events make no job. [all events] */
  readonly match?: Readonly<Record<string, string | number | boolean | null>> | undefined
  /** When the subscriber is first declared, it also gets events that were published this long ago, as far as they are kept. [none] */
  readonly past?: DurationInput | undefined
  /** Queue of the jobs. [the declared routes, then `default`] */
  readonly queue?: string | undefined
  /** Time limit of one attempt. [15m] */
  readonly timeout?: DurationInput | undefined
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
}

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

/** What a subscriber declares. Throws InvalidOptionError. @internal */
export const subscriptionOf = (name: string, options: Pick<OnOptions<never>, "as" | "match" | "past">) => {
  if (options.past !== undefined) durationOf("past", options.past, ` of "${options.as}"`)
  try {
    return EventCore.subscriptionOf(name, options)
  } catch (error) {
    throw error instanceof RangeError ? new InvalidOptionError("match", error.message) : error
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
  const { as, if: condition, match: _, past: __, ...rest } = options
  const jobOptions: JobOptions<In, Out, unknown, unknown> = { ...rest, payload: given.schema }
  const kind = { ...defined(as, jobOptions).kind, subscribes: subscriptionOf(given.name, options) }
  const conditional: typeof run = (data, context) =>
    condition === undefined || condition(data) ? run(data, context) : EventCore.skipped
  return PromiseHandler.of({}, PromiseHandler.make(kind, conditional), {
    call: "on",
    name: as,
    options: { event: given, options },
    run
  })
}
