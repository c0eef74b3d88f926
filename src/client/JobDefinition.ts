import { Either, Predicate } from "effect"
import * as Backoff from "../core/Backoff.js"
import type { BackoffInput, Jitter } from "../core/BackoffInput.js"
import type { DurationInput } from "../core/DurationInput.js"
import { issuesText } from "../core/Issues.js"
import { shown } from "../core/Storable.js"
import type { FollowUp } from "../core/StoredJob.js"
import * as Kind from "../queue/Job.js"
import { ofKind } from "../schedule/Schedule.js"
import type { Schedule, ScheduleSettings } from "../schedule/ScheduleSettings.js"
import type { Enqueueable } from "./Enqueue.js"
import { checkCode, checkKnown, durationOf, namesOf } from "./Options.js"
import * as PromiseHandler from "./PromiseHandler.js"
import * as PushHandler from "./PushHandler.js"
import type { Handler, Recipe } from "./Recipe.js"
import { InvalidOptionError, InvalidPayloadError, ShiftError } from "./ShiftErrors.js"
import * as StandardSchema from "./StandardSchema.js"
import { storedForm } from "./StoredForm.js"

export type { BackoffInput }

/** How often and after which delays a failed job is tried again. */
export interface RetryOptions {
  /** Attempts before a job is dead, counting the first. [5] */
  readonly attempts?: number | undefined
  /** Delay after each failed attempt. [30s, 2m, 10m, then 1h] */
  readonly backoff?: BackoffInput | undefined
  /**
   * How much each wait varies at random: a share from 0 to 1 in either direction, or `true` for 0.1. Jobs that failed
   * together are then not retried together. [`true` for waits that double, else none]
   */
  readonly jitter?: Jitter | undefined
}

/** Validators and defaults of a kind of job. */
export interface JobOptions<In, Out, RIn, ROut> extends RetryOptions {
  /** Validates payloads, at enqueue and before the handler: zod, valibot, arktype, or any other Standard Schema. */
  readonly payload: StandardSchema.StandardSchema<In, Out>
  /** Types what handlers return. Validates the stored result when `shift.result` reads it; the worker does not run it. */
  readonly result?: StandardSchema.StandardSchema<RIn, ROut> | undefined
  /** Queue of jobs that name none. [the declared routes, then `default`] */
  readonly queue?: string | undefined
  /** Time limit of one attempt. [15m] */
  readonly timeout?: DurationInput | undefined
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
  /** Payload version. Raise it with every change that makes the validator reject stored payloads. [1] */
  readonly version?: number | undefined
  /** Converts stored payloads to the next version: `1` takes a payload of version 1 and returns one of version 2. */
  readonly upcasters?: Readonly<Record<number, (payload: unknown) => unknown>> | undefined
  /** A job to run when one of this kind dies: `otherJob.followUp(…)`, or a function of the payload. */
  readonly onDead?: FollowUp | ((payload: In) => FollowUp) | undefined
}

/** When a schedule fires, and the payload of its jobs. */
export interface ScheduleOptions<In> extends ScheduleSettings {
  /** The payload of every job. */
  readonly payload: In
}

/** A kind of job. `In` is enqueued, the handler gets `Out` and returns `RIn`, and `shift.result` returns `ROut`. */
export interface Job<in In, out Out = unknown, in RIn = never, out ROut = unknown> extends Enqueueable<In, ROut> {
  /** Name that is stored with every job and selects its handler. */
  readonly name: string
  /** Runs jobs of this kind with an async function. A job whose handler throws is retried. */
  handle(run: PromiseHandler.Run<Out, RIn>): Handler
  /** Like `handle`, in a transaction that also records the job's result. Writes through `tx` happen exactly once. */
  handleInTransaction(run: PromiseHandler.RunInTransaction<Out, RIn>): Handler
  /**
   * Runs jobs of this kind at a URL: each attempt is a signed request with the payload, and the JSON of the response is the
   * job's result.
   */
  push(options: PushHandler.PushOptions): Handler
  /** A recurring job, for `worker(shift, { schedules })`. */
  schedule(name: string, options: ScheduleOptions<In>): Schedule
  /** The job to run when another dies. */
  followUp(payload: In): FollowUp
}

/** @internal */
export const backoffOf = (backoff: BackoffInput): Backoff.Backoff => {
  if (typeof backoff === "object" && "base" in backoff) return Backoff.exponential(backoff)
  return Array.isArray(backoff)
    ? Backoff.stepwise(...(backoff as [DurationInput, ...ReadonlyArray<DurationInput>]))
    : Backoff.fixed(backoff as DurationInput)
}

const jobOptions = namesOf<JobOptions<never, unknown, never, unknown>>({
  payload: 0,
  result: 0,
  queue: 0,
  attempts: 0,
  backoff: 0,
  jitter: 0,
  timeout: 0,
  priority: 0,
  version: 0,
  upcasters: 0,
  onDead: 0
})
const backoffOptions = ["base", "max", "jitter"]
const scheduleOptions = namesOf<ScheduleOptions<never>>({
  payload: 0,
  cron: 0,
  timezone: 0,
  overlap: 0,
  missed: 0,
  queue: 0,
  attempts: 0,
  subject: 0,
  paused: 0
})

/** Throws InvalidOptionError for a backoff with a duration that cannot be read. @internal */
export const checkBackoff = (option: string, backoff: BackoffInput, of: string): void => {
  if (typeof backoff === "object" && "base" in backoff) {
    checkKnown(backoff, backoffOptions, "an option of a backoff", `${option}.`)
    durationOf(`${option}.base`, backoff.base, of)
    durationOf(`${option}.max`, backoff.max, of)
  } else if (Array.isArray(backoff)) {
    const [first, ...more] = backoff
    for (const [index, delay] of [first, ...more].entries()) durationOf(`${option}[${index}]`, delay, of)
  } else {
    durationOf(option, backoff as DurationInput, of)
  }
}

/** Throws InvalidOptionError for a duration that cannot be read. */
const checkDurations = (
  name: string,
  { backoff, timeout }: Pick<JobOptions<never, unknown, never, unknown>, "backoff" | "timeout">
): void => {
  const of = ` of "${name}"`
  if (timeout !== undefined) durationOf("timeout", timeout, of)
  if (backoff !== undefined) checkBackoff("backoff", backoff, of)
}

/** The waits of a kind. Nothing if it says neither: then those of its queue apply. */
const retryBackoff = (name: string, { backoff, jitter }: RetryOptions): Backoff.Backoff | undefined => {
  if (jitter === undefined) return backoff === undefined ? undefined : backoffOf(backoff)
  try {
    if (typeof backoff === "object" && "base" in backoff) return backoffOf({ ...backoff, jitter })
    return Backoff.jittered(backoff === undefined ? Backoff.ladder : backoffOf(backoff), jitter)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new InvalidOptionError("backoff", `backoff of "${name}": ${error.message}`)
  }
}

/** Throws InvalidOptionError for mistakes that only programs in JavaScript can make. */
const checkOptions = (name: unknown, options: unknown): void => {
  if (typeof name !== "string")
    throw new InvalidOptionError(
      "name",
      `The first argument of job() must be the name of the kind, got ${typeof name}.`
    )
  if (!Predicate.isRecord(options))
    throw new InvalidOptionError(
      "payload",
      `job("${name}") needs options with a payload validator, such as { payload: z.object({ id: z.string() }) }.`
    )
  checkKnown(options, jobOptions, `an option of "${name}"`)
  for (const option of options.result === undefined ? ["payload"] : ["payload", "result"]) {
    const fault = StandardSchema.faultOf(options[option])
    if (fault !== undefined) throw new InvalidOptionError(option, `${option} of "${name}" ${fault}.`)
  }
}

/** A job with its kind for the workers of this copy of Effect. @internal */
export const defined = <In, Out, RIn, ROut>(
  name: string,
  options: JobOptions<In, Out, RIn, ROut>
): Job<In, Out, RIn, ROut> & { readonly kind: Kind.JobKind<StandardSchema.Decoded> } => {
  checkOptions(name, options)
  const { attempts, backoff: _, jitter: __, onDead, payload: schema, result, ...rest } = options
  if (attempts !== undefined && (!Number.isInteger(attempts) || attempts < 1))
    throw new InvalidOptionError(
      "attempts",
      `attempts of "${name}" must be a whole number of at least 1, got ${shown(attempts)}.`
    )
  checkDurations(name, options)
  const backoff = retryBackoff(name, options)
  const made = Kind.make<StandardSchema.Decoded, unknown>(name, {
    ...rest,
    payload: StandardSchema.payloadSchema(schema as StandardSchema.StandardSchema<never, unknown>),
    attempts,
    ...(backoff === undefined ? {} : { backoff }),
    ...(typeof onDead === "object" ? { onDead } : {})
  })
  // The stored payload is the input of the validator.
  const kind = typeof onDead === "function" ? { ...made, followUpOf: (stored: unknown) => onDead(stored as In) } : made

  const accept =
    (payload: unknown, stored: unknown, index: number | undefined) => (checked: StandardSchema.Checked<unknown>) => {
      if (checked.issues === undefined) return stored
      const passes = (again: StandardSchema.Checked<unknown> | Promise<unknown>) =>
        !(again instanceof Promise) && again.issues === undefined
      const hint =
        stored !== payload && passes(StandardSchema.check(schema, payload))
          ? ". Payloads are stored as JSON, where a Date is a string: accept a string in the validator and convert it"
          : ""
      throw new InvalidPayloadError(
        name,
        checked.issues,
        index ?? 0,
        `${index === undefined ? "The" : `Job ${index}: the`} payload of job "${name}" is invalid: ${issuesText("payload", checked.issues)}${hint}.`
      )
    }

  const encode = (payload: In, index?: number): unknown => {
    const stored = storedForm(payload)
    const checked = StandardSchema.check(schema, stored)
    const accepted = accept(payload, stored, index)
    return checked instanceof Promise ? checked.then(accepted) : accepted(checked)
  }

  /** Encodes synchronously. An asynchronous validator then runs only before the handler. */
  const encodeNow = (payload: In): unknown => {
    const encoded = encode(payload)
    if (!(encoded instanceof Promise)) return encoded
    encoded.catch(() => {})
    return storedForm(payload)
  }

  return {
    name,
    kind,
    encode,
    handle: (run) => {
      checkCode(`handle of "${name}"`, run)
      return PromiseHandler.of({}, PromiseHandler.make(kind, run), { call: "handle", name, options, run })
    },
    handleInTransaction: (run) => {
      checkCode(`handleInTransaction of "${name}"`, run)
      const made: Recipe = { call: "handleInTransaction", name, options, run }
      return PromiseHandler.of({}, PromiseHandler.makeInTransaction(kind, run), made)
    },
    push: (endpoint) => {
      const made: Recipe = { call: "push", name, options, run: endpoint }
      return PromiseHandler.of({}, PushHandler.make(kind, endpoint), made)
    },
    schedule: (scheduleName, { payload, ...settings }) => {
      checkKnown(settings, scheduleOptions, `an option of the schedule "${scheduleName}"`)
      const encoded = Either.try({
        try: () => encodeNow(payload),
        catch: (error) =>
          `is invalid: ${error instanceof ShiftError ? error.message.replace(/\.$/, "") : String(error)}`
      })
      return ofKind(scheduleName, kind, settings, encoded)
    },
    followUp: (payload) => Kind.followUpOf(kind, { payload: encodeNow(payload) }),
    deadLetter: (payload) => (typeof onDead === "function" ? onDead(payload) : onDead),
    readResult: (stored) =>
      result === undefined
        ? { value: stored as ROut }
        : StandardSchema.check<ROut>(result as StandardSchema.StandardSchema<never, ROut>, stored)
  }
}

/**
 * Declares a kind of job: its name, its validators and its defaults. Producers and workers share it.
 *
 * @example
 * ```ts
 * import { job } from "nightshift/client"
 * import { z } from "zod"
 *
 * export const mail = job("mail", {
 *   payload: z.object({ to: z.email(), subject: z.string() }),
 *   result: z.object({ messageId: z.string() }),
 *   queue: "mail",
 *   attempts: 8,
 *   backoff: { base: "10s", max: "10m" }
 * })
 * ```
 */
export const job: <In, Out = In, RIn = unknown, ROut = RIn>(
  name: string,
  options: JobOptions<In, Out, RIn, ROut>
) => Job<In, Out, RIn, ROut> = defined
