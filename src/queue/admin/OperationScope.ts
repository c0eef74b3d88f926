import { Clock, Duration, Effect, Either, Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"
import { joinOr } from "../../core/Spelling.js"
import { type State, type StoredJob, waitingStates } from "../../core/StoredJob.js"
import { choices, isEmpty, type JobFilter } from "../search/JobFilter.js"
import type { JobSearch } from "../search/JobSearch.js"
import type { PreviewFields } from "./OperationFields.js"
import { type Action, isUndoable } from "./Operations.js"

export class FilterRefused extends Expected<FilterRefused>(400)("FilterRefused", {
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}.`
  }
}

/** The states that each action accepts, and the default if the filter names none. */
const scopes: Readonly<
  Record<Action, { readonly allowed: ReadonlyArray<State>; readonly byDefault: ReadonlyArray<State> }>
> = {
  cancel: { allowed: [...waitingStates, "running"], byDefault: [...waitingStates, "running"] },
  // Requeuing done jobs repeats finished work, and cancelled jobs were stopped on purpose: the caller must name these states.
  requeue: { allowed: ["done", "dead", "cancelled"], byDefault: ["dead"] },
  "run-now": { allowed: waitingStates, byDefault: ["scheduled", "retrying"] },
  delete: {
    allowed: [...waitingStates, "done", "dead", "cancelled"],
    byDefault: [...waitingStates, "done", "dead", "cancelled"]
  }
}

export const allowedStates = (action: Action): ReadonlyArray<State> => scopes[action].allowed

export const isFor = (action: Action, state: State): boolean => scopes[action].allowed.includes(state)

/**
 * The first field that is set but empty, often because of a variable that was not set. As a filter, it would match every
 * job. With a `reason`, the empty shape selects dead jobs without an error, as the groups of dead jobs do.
 */
const emptyField = ({ payload, reason, search, shape, text }: JobFilter): string | undefined => {
  if (search === "") return "search"
  if (text === "") return "text"
  if (shape === "" && reason === undefined) return "shape"
  return typeof payload === "object" && payload !== null && Object.keys(payload).length === 0 ? "payload" : undefined
}

/** Adds the action's default states to the filter. Rejects an empty filter or field, which would match every job. */
export const resolve = (action: Action, filter: JobFilter): Either.Either<JobFilter, FilterRefused> => {
  const refuse = (field: string, reason: string) => Either.left(new FilterRefused({ field, reason }))
  if (isEmpty(filter)) return refuse("filter", "must not be empty; to select all jobs, list the states")
  const empty = emptyField(filter)
  if (empty !== undefined) return refuse(`filter.${empty}`, "must not be empty; give it a value or leave it out")
  const { allowed, byDefault } = scopes[action]
  const named = choices(filter.state)
  const unsuitable = named?.find((state) => !allowed.includes(state))
  if (unsuitable !== undefined) {
    return refuse("filter.state", `must not be ${unsuitable}: ${action} needs jobs that are ${joinOr(allowed)}`)
  }
  return Either.right({ ...filter, state: named ?? byDefault })
}

export const sampleSize = 10

/** How far a preview counts by default, at most, and if it has to answer within a second. */
export const countLimits = { default: 100_000, max: 1_000_000, quick: 1_000 } as const

/** Time limit of each of the two queries of a quick preview. */
const quickTimeout = Duration.millis(400)

const endedStates: ReadonlyArray<State> = ["done", "dead", "cancelled"]

/**
 * Excludes jobs that are enqueued, or end, after this time. With this filter, an operation covers the jobs that its preview
 * counted, except those that have changed since.
 */
const boundAt = (filter: JobFilter, at: number): JobFilter => {
  const areEnded = choices(filter.state)?.every((state) => endedStates.includes(state)) ?? false
  const earliest = (given: number | undefined) => Math.min(given ?? at, at)
  return {
    ...filter,
    until: earliest(filter.until),
    ...(areEnded ? { diedBefore: earliest(filter.diedBefore) } : {})
  }
}

/** The jobs that an operation would cover if it began now. */
export interface Preview extends PreviewFields {
  /** Selects exactly these jobs. */
  readonly filter: JobFilter
  /** The newest of them. */
  readonly sample: ReadonlyArray<StoredJob>
}

/**
 * Counts the jobs of a filter that `resolve` returned, and reads a few of them. If that takes too long, the count is a
 * lower bound.
 */
export const previewOf = (
  search: typeof JobSearch.Service,
  action: Action,
  given: JobFilter,
  countTo: number = countLimits.default
) =>
  Effect.gen(function* () {
    const filter = boundAt(given, (yield* Clock.currentTimeMillis) + 1)
    const timeout = countTo <= countLimits.quick ? quickTimeout : undefined
    const sample = yield* search.list(filter, { limit: sampleSize, timeout }).pipe(
      Effect.map(({ jobs }) => jobs),
      Effect.catchTag("SearchTooSlow", () => Effect.succeed<ReadonlyArray<StoredJob>>([]))
    )
    const matched = yield* search
      .total(filter, countTo, timeout)
      .pipe(Effect.catchTag("SearchTooSlow", () => Effect.succeed({ count: sample.length, exact: false })))
    const preview: Preview = { filter, matched, sample, undoable: isUndoable(action, matched) }
    return preview
  })
