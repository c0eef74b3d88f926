import { Effect, Either, Predicate } from "effect"
import { type DurationInput, decode, expected, parse } from "../../core/DurationText.js"
import { suggestion } from "../../core/Spelling.js"
import { shown } from "../../core/Storable.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { DeclaredQueues, QueueDeclaration, QueueLimits } from "./QueueLimits.js"
import * as QueuePatch from "./QueuePatch.js"
import { fresh } from "./QueueRow.js"
import { InvalidSetting, type QueueSettings, type QueueSettingsPatch, Queues } from "./QueueSettings.js"

export type { DeclaredQueues, QueueDeclaration, QueueLimits } from "./QueueLimits.js"

/** A queue of a worker, checked. */
export interface DeclaredQueue {
  readonly name: string
  readonly workers: number | undefined
  readonly patch: QueueSettingsPatch
}

const limitFields = {
  maxWorkers: 0,
  perKey: 0,
  rate: 0,
  depthCap: 0,
  retainDone: 0,
  retainDead: 0,
  backoff: 0
} satisfies Record<keyof QueueLimits, 0>
const perKeyFields = ["concurrency", "order"]
const rateFields = ["jobs", "per"]
const backoffFields = ["enabled", "base", "max"]

/** Throws InvalidSetting for a field that does not exist. */
const checkKnown = (given: object, known: ReadonlyArray<string>, prefix = ""): void => {
  for (const [field, value] of Object.entries(given)) {
    if (known.includes(field) || value === undefined) continue
    const reason = `is not a setting of a queue: use ${known.join(", ")}.${suggestion(field, known)}`
    throw new InvalidSetting({ field: `${prefix}${field}`, reason })
  }
}

const durationOf = (field: string, duration: DurationInput) => {
  try {
    return decode(duration)
  } catch {
    const reason = `must be ${expected}, or a number of milliseconds, got ${shown(duration)}`
    throw new InvalidSetting({ field, reason })
  }
}

/** Applies a conversion to a value that is set: not undefined, which means unchanged, and not null, the default. */
const ifSet = <A, B>(value: A | null | undefined, convert: (value: A) => B): B | null | undefined =>
  value === undefined ? undefined : value === null ? null : convert(value)

const rateOf = (rate: NonNullable<QueueLimits["rate"]>): NonNullable<QueueSettingsPatch["rate"]> => {
  if (typeof rate === "object") {
    checkKnown(rate, rateFields, "rate.")
    return { jobs: rate.jobs, per: durationOf("rate.per", rate.per) }
  }
  const [, jobs = "", period = ""] = /^(\d+)\/(.+)$/.exec(String(rate)) ?? []
  const per = parse(/^\d/.test(period) ? period : `1${period}`)
  if (jobs !== "" && per._tag === "Some") return { jobs: Number(jobs), per: per.value }
  const reason = `must be a number of jobs and a period like 100/m or 10/30s, or { jobs, per }, got ${shown(rate)}`
  throw new InvalidSetting({ field: "rate", reason })
}

const perKeyOf = (perKey: NonNullable<QueueLimits["perKey"]>): NonNullable<QueueSettingsPatch["perKey"]> => {
  const { concurrency, order = "none" } = typeof perKey === "object" ? perKey : { concurrency: perKey }
  if (typeof perKey === "object") checkKnown(perKey, perKeyFields, "perKey.")
  return { concurrency, order }
}

const backoffOf = (backoff: NonNullable<QueueLimits["backoff"]>) => {
  if (!Predicate.isRecord(backoff)) {
    const reason = `must be an object with any of enabled, base and max, got ${shown(backoff)}`
    throw new InvalidSetting({ field: "backoff", reason })
  }
  const { base, enabled, max, ...unknown } = backoff
  checkKnown(unknown, backoffFields, "backoff.")
  return {
    ...(enabled === undefined ? {} : { enabled }),
    ...(base === undefined ? {} : { base: durationOf("backoff.base", base) }),
    ...(max === undefined ? {} : { max: durationOf("backoff.max", max) })
  }
}

/** Runs code that throws InvalidSetting. */
const checked = <A>(read: () => A): Either.Either<A, InvalidSetting> =>
  Either.try({
    try: read,
    catch: (error) => {
      if (error instanceof InvalidSetting) return error
      throw error
    }
  })

const patch = (limits: QueueLimits, known: ReadonlyArray<string>): QueueSettingsPatch => {
  checkKnown(limits, known)
  const { backoff, perKey, rate, retainDead, retainDone, ...rest } = limits
  return {
    ...rest,
    perKey: ifSet(perKey, perKeyOf),
    rate: ifSet(rate, rateOf),
    retainDone: ifSet(retainDone, (kept) => durationOf("retainDone", kept)),
    retainDead: ifSet(retainDead, (kept) => durationOf("retainDead", kept)),
    ...(backoff === undefined ? {} : { backoff: backoffOf(backoff) })
  }
}

/** The patch of a change. */
export const patchOf = (
  change: QueueLimits & { readonly paused?: boolean | undefined }
): Either.Either<QueueSettingsPatch, InvalidSetting> =>
  checked(() => patch(change, ["paused", ...Object.keys(limitFields)]))

/** The queues as an object. A name alone declares no limits. */
const byName = (queues: DeclaredQueues): Readonly<Record<string, number | QueueDeclaration>> =>
  Array.isArray(queues)
    ? Object.fromEntries((queues as ReadonlyArray<string>).map((name) => [name, {}]))
    : (queues as Readonly<Record<string, number | QueueDeclaration>>)

/** The queues of these names, with the limits declared for them. */
export const only = (names: ReadonlyArray<string>, queues: DeclaredQueues): DeclaredQueues => {
  const known = new Map(Object.entries(byName(queues)))
  return Object.fromEntries(names.map((name) => [name, known.get(name) ?? {}]))
}

export const namesOf = (queues: DeclaredQueues): ReadonlyArray<string> => Object.keys(byName(queues))

const isDeclaration = (given: unknown): given is QueueDeclaration => Predicate.isRecord(given)

const declaredOf = (name: string, given: number | QueueDeclaration): DeclaredQueue => {
  if (typeof given !== "number" && !isDeclaration(given)) {
    const reason = `must be a number of workers, or an object like { workers: 20, rate: "100/m" }, got ${shown(given)}`
    throw new InvalidSetting({ field: "", reason })
  }
  const { workers, ...limits } = typeof given === "number" ? { workers: given } : given
  if (workers !== undefined && !(Number.isInteger(workers) && workers >= 1 && workers <= QueuePatch.maxQueueWorkers)) {
    const reason = `must be a whole number from 1 to ${QueuePatch.maxQueueWorkers}, got ${shown(workers)}`
    throw new InvalidSetting({ field: typeof given === "number" ? "" : "workers", reason })
  }
  const settings = patch(limits, ["workers", ...Object.keys(limitFields)])
  Either.getOrThrowWith(QueuePatch.apply(fresh(name), settings), (error) => error)
  return { name, workers, patch: settings }
}

/** Checks the queues of a worker, before any of them is written. */
export const read = (queues: DeclaredQueues): Either.Either<ReadonlyArray<DeclaredQueue>, InvalidSetting> =>
  Either.all(
    Object.entries(byName(queues)).map(([name, given]) =>
      Either.mapLeft(
        checked(() => declaredOf(name, given)),
        ({ field, reason }) =>
          new InvalidSetting({ field: ["queues", name, field].filter((part) => part !== "").join("."), reason })
      )
    )
  )

/** Whether an operator created the queue by pausing it before its first worker: a later pause has a higher revision. */
const isPausedOnly = ({ paused, revision }: QueueSettings) => paused && revision === 1

const apply = (declared: ReadonlyArray<DeclaredQueue>, served: ReadonlySet<string>) =>
  Effect.gen(function* () {
    const queues = yield* Queues
    yield* queues.declare(declared.map(({ name }) => name))
    for (const { name, patch, workers } of declared) {
      const isNew = workers !== undefined && !served.has(name)
      const settings = isNew ? { ...patch, maxWorkers: patch.maxWorkers ?? workers } : patch
      if (Object.values(settings).every((value) => value === undefined)) continue
      // Declared above, and queues are not deleted while workers start.
      const { kept, set } = yield* Effect.catchTag(queues.declareSettings(name, settings), "QueueNotFound", Effect.die)
      if (set.length > 0) yield* Effect.logInfo(`queue ${name}: settings declared: ${set.join(", ")}`)
      for (const { declared, field, value } of kept) {
        yield* Effect.logWarning(
          `queue ${name}: ${field} stays ${value}, which an operator has set. This process declares ${declared}: set that value to return the setting to the code`
        )
      }
    }
  })

/**
 * Returns a step that creates the queues and applies the limits declared with them. A new queue also gets the number of workers
 * of this process as its worker total. The plan notes which queues are new, so that the step can be repeated: a repeated
 * step would find the queues that it has created itself.
 */
export const plan = (
  declared: ReadonlyArray<DeclaredQueue>
): Effect.Effect<Effect.Effect<void, InvalidSetting | DatabaseError, Queues>, DatabaseError, Queues> =>
  Effect.gen(function* () {
    const queues = yield* Queues
    const isSized = declared.some(({ workers }) => workers !== undefined)
    const existing = isSized ? (yield* queues.all).filter((queue) => !isPausedOnly(queue)) : []
    return apply(declared, new Set(existing.map(({ name }) => name)))
  })
