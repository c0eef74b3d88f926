import { Effect, Either, Schema } from "effect"
import type { DurationInput } from "../../core/DurationText.js"
import { type Answer, Expected } from "../../core/ExpectedError.js"
import { InvalidJob, jobPrefix } from "../../core/InvalidJob.js"
import * as Kind from "../../core/Kind.js"
import { closest } from "../../core/Spelling.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type JobFields, jobOf, startOf } from "../Job.js"
import { forceAdvice, UnknownKind } from "../JobErrors.js"
import { Kinds, type RegisteredKind } from "../Kinds.js"
import type { NewJob } from "../NewJob.js"
import * as PayloadCheck from "./PayloadCheck.js"

/** A job requested by a client without the kind's code, which knows only its name. */
export interface JobRequest extends Omit<JobFields, "onDead"> {
  readonly kind: string
  /** Delay from now until the earliest start, instead of `runAt`. */
  readonly delay?: DurationInput | undefined
}

export class KindRefused extends Expected<KindRefused>(422, { tag: "UnknownKind", exit: 2 })("KindRefused", {
  index: Schema.Int,
  jobs: Schema.Int,
  kind: Schema.String,
  /** A registered kind of a similar name. */
  near: Schema.optional(Schema.String)
}) {
  override get message(): string {
    return `${jobPrefix(this)}${new UnknownKind({ kind: this.kind, near: this.near }).message}`
  }

  override get answer(): Answer {
    return { ...KindRefused.answer, field: `jobs[${this.index}].kind` }
  }
}

/** Defaults for an unregistered kind, which only `force` accepts. */
const unregistered = (name: string): RegisteredKind => {
  const { attempts, queue } = Kind.defaults
  return { name, queue, routed: true, version: 1, attempts, onDead: undefined }
}

/** The kind of a schedule's jobs. It was checked when the schedule was created; its pods may be down at the moment. */
export const kindOf = (kinds: typeof Kinds.Service, name: string): Effect.Effect<RegisteredKind, DatabaseError> =>
  Effect.catchTag(kinds.find(name), "UnknownKind", () => Effect.succeed(unregistered(name)))

/** The registered kinds among these names. One query per request; most requests have one kind, at most a thousand. */
const lookUp = (
  kinds: typeof Kinds.Service,
  names: ReadonlySet<string>
): Effect.Effect<ReadonlyMap<string, RegisteredKind>, DatabaseError> => {
  const [name] = names
  if (name === undefined || names.size > 1)
    return Effect.map(kinds.all, (found) => new Map(found.map((kind) => [kind.name, kind])))
  return kinds.find(name).pipe(
    Effect.map((kind) => new Map([[kind.name, kind]])),
    Effect.catchTag("UnknownKind", () => Effect.succeed(new Map()))
  )
}

/** Checks a payload by the kind's own code if this process has it, otherwise by JSON Schema. */
const misfitOf = (
  { check, name, schema }: RegisteredKind,
  payload: unknown,
  place: { readonly index: number; readonly jobs: number }
): InvalidJob | undefined => {
  const fault = (check ?? (schema === undefined ? undefined : PayloadCheck.ofSchema(schema)))?.(payload)
  if (fault === undefined) return undefined
  const reason = `does not match the schema of the kind "${name}": ${fault.reason}. Fix it, or ${forceAdvice}`
  return new InvalidJob({ ...place, field: fault.field, reason })
}

const misfit = (
  requests: ReadonlyArray<JobRequest>,
  registered: ReadonlyMap<string, RegisteredKind>
): InvalidJob | undefined => {
  for (const [index, { kind: name, payload }] of requests.entries()) {
    const kind = registered.get(name)
    const fault = kind === undefined ? undefined : misfitOf(kind, payload, { index, jobs: requests.length })
    if (fault !== undefined) return fault
  }
  return undefined
}

/** Fails if a payload does not match the schema of its kind. Only the current version of a kind has a schema. */
export const checkPayload = (
  kind: RegisteredKind,
  payload: unknown,
  version: number = kind.version
): Effect.Effect<void, InvalidJob> => {
  const fault = version === kind.version ? misfitOf(kind, payload, { index: 0, jobs: 1 }) : undefined
  return fault === undefined ? Effect.void : Effect.fail(fault)
}

interface ResolveOptions {
  /** Skips validation and accepts unregistered kinds. */
  readonly force: boolean
  /** Validates payloads. */
  readonly check?: boolean
}

type Resolved = Effect.Effect<ReadonlyArray<NewJob>, KindRefused | InvalidJob | DatabaseError>

const refusal = (kinds: typeof Kinds.Service, requests: ReadonlyArray<JobRequest>, index: number) =>
  Effect.flatMap(kinds.all, (all) => {
    const kind = requests[index]?.kind ?? ""
    const near = closest(
      kind,
      all.map(({ name }) => name)
    )
    return new KindRefused({ index, jobs: requests.length, kind, near })
  })

const filledIn = (
  requests: ReadonlyArray<JobRequest>,
  registered: ReadonlyMap<string, RegisteredKind>,
  now: () => number
): Effect.Effect<ReadonlyArray<NewJob>, InvalidJob> => {
  const jobs: Array<NewJob> = []
  for (const [index, request] of requests.entries()) {
    const start = startOf(request, now)
    if (Either.isLeft(start)) {
      return new InvalidJob({ index, jobs: requests.length, field: "delay", reason: start.left })
    }
    const kind = registered.get(request.kind) ?? unregistered(request.kind)
    jobs.push(jobOf(kind, { ...request, runAt: start.right }))
  }
  return Effect.succeed(jobs)
}

/**
 * Fills in each job's registered defaults; values in the request take precedence. A job without a queue is routed
 * later.
 */
const resolveIn = (
  kinds: typeof Kinds.Service,
  requests: ReadonlyArray<JobRequest>,
  { check, force }: ResolveOptions
): Resolved =>
  Effect.flatMap(lookUp(kinds, new Set(requests.map(({ kind }) => kind))), (registered): Resolved => {
    const unknown = force ? -1 : requests.findIndex(({ kind }) => !registered.has(kind))
    if (unknown !== -1) return refusal(kinds, requests, unknown)
    const fault = check === true && !force ? misfit(requests, registered) : undefined
    return fault ?? Effect.clockWith((clock) => filledIn(requests, registered, () => clock.unsafeCurrentTimeMillis()))
  })

/** The same with a span. */
export const resolve = Effect.fn("JobRequests.resolve")(
  (requests: ReadonlyArray<JobRequest>, options: ResolveOptions) =>
    Effect.flatMap(Kinds, (kinds) => resolveIn(kinds, requests, options))
)
