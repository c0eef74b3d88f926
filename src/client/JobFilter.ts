import { Either, ParseResult, Schema } from "effect"
import { faultOfInstant, jsonText, shown } from "../core/Storable.js"
import { type DeadReason, limits, type State } from "../core/StoredJob.js"
import * as Instant from "../http/Instant.js"
import { Body } from "../http/jobs/JobsFilter.js"
import { faultOfIssues } from "../http/RequestErrors.js"
import { descriptions, type JobFilter as StoredFilter } from "../queue/search/JobFilter.js"
import { checkKnown, type InstantInput, instantOf } from "./Options.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** Selects the jobs that match every field, as in the HTTP API. A list matches any of its values. */
export interface JobFilter {
  /** Jobs of this queue. */
  readonly queue?: string | ReadonlyArray<string> | undefined
  /** Jobs of this kind: the name of the job. */
  readonly kind?: string | ReadonlyArray<string> | undefined
  /** Jobs in this state. */
  readonly state?: State | ReadonlyArray<State> | undefined
  /** Dead jobs with this reason. */
  readonly reason?: DeadReason | ReadonlyArray<DeadReason> | undefined
  /** Jobs enqueued at or after this time. */
  readonly since?: InstantInput | undefined
  /** Jobs enqueued before this time. */
  readonly until?: InstantInput | undefined
  /** Jobs whose payload contains this JSON: `{ customer: "c-1" }` matches payloads with that field and value. */
  readonly payload?: unknown
  /** Jobs with exactly this dedupe key. */
  readonly dedupe?: string | undefined
  /** Jobs that the process with this id runs or has completed. */
  readonly pod?: string | undefined
  /** Jobs with this text in the last error, case-insensitive. */
  readonly text?: string | undefined
  /** Jobs with this text in the id, the kind or the last error, or with exactly this dedupe key or key. */
  readonly search?: string | undefined
  /** Jobs with this error shape: the first line of the last error, with numbers and ids replaced by `#`. */
  readonly shape?: string | undefined
  /** Jobs of this batch. */
  readonly batch?: string | undefined
}

const names = Object.keys(descriptions)

/** In a structure of its own, so that messages name a field as `filter.state`. */
const decode = Schema.decodeUnknownEither(Schema.Struct({ filter: Body }))

const instant = (field: "since" | "until", given: InstantInput): string => {
  const millis = instantOf(`filter.${field}`, given)
  const fault = faultOfInstant(millis)
  if (fault !== undefined) throw new InvalidOptionError(`filter.${field}`, `filter.${field} ${fault}.`)
  return Instant.format(millis)
}

/** The payload as it is after a round trip through JSON, as that of a stored job: a Date becomes text. */
const jsonOf = (payload: unknown): unknown => {
  const text = jsonText(payload, limits.payloadBytes)
  if (Either.isLeft(text)) throw new InvalidOptionError("filter.payload", `filter.payload ${text.left}.`)
  return JSON.parse(text.right)
}

/** Reads a filter. Throws InvalidOptionError for one that is invalid. */
export const read = (filter: JobFilter): StoredFilter => {
  if (typeof filter !== "object" || filter === null || Array.isArray(filter))
    throw new InvalidOptionError("filter", `The filter must be an object like { queue: "mail" }, got ${shown(filter)}.`)
  checkKnown(filter, names, "a field of a job filter", "filter.")
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
  const { payload, since, until } = filter
  const wire = {
    ...given,
    ...(since === undefined ? {} : { since: instant("since", since) }),
    ...(until === undefined ? {} : { until: instant("until", until) }),
    ...(payload === undefined ? {} : { payload: jsonOf(payload) })
  }
  return Either.getOrThrowWith(decode({ filter: wire }), (error) => {
    const { field = "filter", message } = faultOfIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
    return new InvalidOptionError(field, message)
  }).filter
}
