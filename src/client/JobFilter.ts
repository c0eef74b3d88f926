import { Either } from "effect"
import { pathText } from "../core/Issues.js"
import { jsonText, shown } from "../core/Storable.js"
import { type DeadReason, limits, type State } from "../core/StoredJob.js"
import { Body } from "../http/jobs/JobsFilter.js"
import { descriptions, type JobFilter as StoredFilter } from "../queue/search/JobFilter.js"
import * as Filter from "./Filter.js"
import type { InstantInput } from "./Options.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** Selects the jobs that match every field, as in the HTTP API. A list matches any of its values. */
export interface JobFilter {
  /** Jobs of this queue: `"mail"`, or a list of queues. */
  readonly queue?: string | ReadonlyArray<string> | undefined
  /** Jobs of this kind: the name of the job. */
  readonly kind?: string | ReadonlyArray<string> | undefined
  /** Jobs in this state: `"dead"`, or a list of states. */
  readonly state?: State | ReadonlyArray<State> | undefined
  /** Dead jobs with this reason. */
  readonly reason?: DeadReason | ReadonlyArray<DeadReason> | undefined
  /** Jobs enqueued at or after this time. */
  readonly since?: InstantInput | undefined
  /** Jobs enqueued before this time. */
  readonly until?: InstantInput | undefined
  /** Finished jobs that ended before this time. */
  readonly diedBefore?: InstantInput | undefined
  /**
   * Jobs whose payload contains this JSON: `{ customer: "c-1" }` matches payloads with that field and value.
   * A field of it that is undefined is refused.
   */
  readonly payload?: unknown
  /** Jobs with exactly this dedupe key. */
  readonly dedupe?: string | undefined
  /** Jobs with exactly this key. */
  readonly key?: string | undefined
  /** Jobs that the process with this id runs or has completed. */
  readonly pod?: string | undefined
  /** Jobs with this text in the last error, case-insensitive. */
  readonly text?: string | undefined
  /** Jobs with this text in the id, the kind or the last error, or with exactly this dedupe key or key. */
  readonly search?: string | undefined
  /** Jobs with this error shape: the first line of the last error, with numbers and ids replaced by `#`. */
  readonly shape?: string | undefined
  /** Jobs of this batch, by the id that `batches.create` returned. */
  readonly batch?: string | undefined
}

const hasToJson = (value: unknown): value is { readonly toJSON: (key: string) => unknown } =>
  typeof value === "object" && value !== null && "toJSON" in value && typeof value.toJSON === "function"

/** Refuses values that JSON leaves out or turns into null: without them, the filter would match other jobs. */
const checkPresent = (given: unknown, path: ReadonlyArray<string | number>): void => {
  const value = hasToJson(given) ? given.toJSON(String(path.at(-1) ?? "")) : given
  if (value === undefined || typeof value === "function" || typeof value === "symbol") {
    const name = pathText("filter.payload", path)
    const fault = `is ${shown(value)}, so the filter would not compare it. Give it a value or leave it out.`
    throw new InvalidOptionError(name, `${name} ${fault}`)
  }
  // A spread array has undefined in place of holes.
  if (Array.isArray(value)) for (const [index, each] of [...value].entries()) checkPresent(each, [...path, index])
  else if (typeof value === "object" && value !== null)
    for (const [name, each] of Object.entries(value)) checkPresent(each, [...path, name])
}

/** The payload as it is after a round trip through JSON, as that of a stored job: a Date becomes text. */
const jsonOf = (payload: unknown): unknown => {
  const text = jsonText(payload, limits.payloadBytes)
  if (Either.isLeft(text)) throw new InvalidOptionError("filter.payload", `filter.payload ${text.left}.`)
  checkPresent(payload, [])
  return JSON.parse(text.right)
}

const decode = Filter.reader(Body, Object.keys(descriptions), 'queue: "mail"')

/** Reads a filter. Throws InvalidOptionError for one that is invalid. @internal */
export const read = (given: JobFilter): StoredFilter =>
  decode(given, ({ diedBefore, payload, since, until }: JobFilter) => ({
    since: Filter.instant("since", since),
    until: Filter.instant("until", until),
    diedBefore: Filter.instant("diedBefore", diedBefore),
    payload: payload === undefined ? undefined : jsonOf(payload)
  }))
