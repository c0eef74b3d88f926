import { Effect, Exit, Predicate } from "effect"
import { issuesText } from "../core/Issues.js"
import { isUnstorable, shown } from "../core/Storable.js"
import type { PublishOptions as EventOptions, Published } from "../queue/events/Event.js"
import { Events } from "../queue/events/Events.js"
import { fromCause } from "./FromCause.js"
import { checkKnown, namesOf } from "./Options.js"
import { InvalidOptionError, InvalidPayloadError } from "./ShiftErrors.js"
import * as StandardSchema from "./StandardSchema.js"
import { storedForm } from "./StoredForm.js"
import type { Transaction } from "./TransactionAdapter.js"

/** An event. `In` is published, and subscribers get `Out`. */
export interface EventDefinition<in out In, out Out = unknown> {
  /** Name of the event, which subscribers refer to. */
  readonly name: string
  /** Validates the data, when it is published and before each subscriber. */
  readonly schema: StandardSchema.StandardSchema<In, Out>
}

/** How one event differs from others of its name. */
export interface PublishOptions extends EventOptions {
  /** Your own transaction. The event and its jobs exist once it commits. [none] */
  readonly tx?: Transaction | undefined
}

/** What was published, and the number of jobs that were stored. */
export interface PublishedEvent extends Published {}

/** Stores an event and one job for each subscriber, and resolves when they are durable. */
export type Publish<Options> = <In>(
  event: EventDefinition<In>,
  data: NoInfer<In>,
  options?: Options
) => Promise<PublishedEvent>

const publishOptions = namesOf<PublishOptions>({ key: 0, subject: 0, id: 0, tx: 0 })

/**
 * Declares an event: its name and the validator of its data. Publishers and subscribers share it.
 *
 * @example
 * ```ts
 * import { connect, event, on, worker } from "nightshift/client"
 * import { z } from "zod"
 *
 * const paid = event("order.paid", z.object({ order: z.string() }))
 * const receipt = on(paid, { as: "send-receipt" }, async ({ order }) => console.log("receipt for", order))
 * const shift = await connect()
 * await worker(shift, { handlers: [receipt] })
 * await shift.publish(paid, { order: "A-17" }, { id: "A-17" })
 * ```
 */
export const event = <In, Out = In>(
  name: string,
  schema: StandardSchema.StandardSchema<In, Out>
): EventDefinition<In, Out> => {
  if (typeof name !== "string" || name === "" || name.length > 128)
    throw new InvalidOptionError("name", `The name of an event must be 1 to 128 characters long, got ${shown(name)}.`)
  if (isUnstorable(name))
    throw new InvalidOptionError("name", "The name of an event must not contain NUL characters or unpaired surrogates.")
  const fault = StandardSchema.faultOf(schema)
  if (fault !== undefined) throw new InvalidOptionError("schema", `The validator of the event "${name}" ${fault}.`)
  return { name, schema }
}

/** Throws InvalidOptionError for what is not an event. @internal */
export const checkEvent = (method: string, given: unknown): void => {
  if (Predicate.hasProperty(given, "name") && Predicate.hasProperty(given, "schema")) return
  throw new InvalidOptionError(
    "event",
    `The first argument of ${method} must be an event that event(…) returned, got ${shown(given)}.`
  )
}

/** The data of an event as it is stored. Rejects with InvalidPayloadError. @internal */
export const encoded = async <In>({ name, schema }: EventDefinition<In>, data: In): Promise<unknown> => {
  const stored = storedForm(data)
  const checked = await StandardSchema.check(schema, stored)
  if (checked.issues === undefined) return stored
  const text = `The data of the event "${name}" is invalid: ${issuesText("data", checked.issues)}. Nothing was published.`
  throw new InvalidPayloadError(name, checked.issues, 0, text)
}

/** Publishes an event. `store` stores it with or without a transaction of the caller. @internal */
export const publishWith =
  (
    store: (
      event: Parameters<typeof Events.Service.publish>[0][number],
      tx: Transaction | undefined
    ) => Promise<PublishedEvent>
  ): Publish<PublishOptions> =>
  async (given, data, options = {}) => {
    checkEvent("publish", given)
    checkKnown(options, publishOptions, "an option of publish")
    const { id, key, subject, tx } = options
    return store({ name: given.name, data: await encoded(given, data), key, subject, id }, tx)
  }

/** `publish` of a handler: joins the handler's transaction, if it has one. @internal */
export const inHandler = (
  run: <A, E>(effect: Effect.Effect<A, E, Events>) => Promise<A>
): Publish<Omit<PublishOptions, "tx">> =>
  publishWith(async (event) => {
    const exit = await run(Effect.exit(Effect.flatMap(Events, (events) => events.publish([event]))))
    if (Exit.isFailure(exit)) throw fromCause(exit.cause)
    return exit.value[0] as PublishedEvent
  })
