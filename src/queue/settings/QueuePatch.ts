import { Duration, Either } from "effect"
import { format } from "../../core/DurationText.js"
import { faultOfWhole, isPlainName, plainNameRule, shown } from "../../core/Storable.js"
import { keyOrders } from "./QueueLimits.js"
import { fresh, type QueueRow } from "./QueueRow.js"
import {
  type DeclaredSettings,
  InvalidSetting,
  type QueueField,
  QueueNotFound,
  type QueueSettings,
  type QueueSettingsPatch
} from "./QueueSettings.js"

// Applies a patch to a queue row, all or nothing: the first invalid field rejects the patch.

const longest = Duration.days(36_500)
/** Maximum worker total of a queue. */
export const maxQueueWorkers = 10_000
const maxJobsPerKey = 10_000
const maxRateJobs = 1_000_000
const maxDepthCap = 1_000_000_000

type Fault = readonly [field: string, reason: string]

const count = (field: string, value: number, min: number, max: number): Fault | undefined => {
  const reason = faultOfWhole(value, min, max)
  return reason === undefined ? undefined : [field, reason]
}

const whole = (field: string, value: number | null | undefined, min: number, max: number): Fault | undefined =>
  value === null || value === undefined ? undefined : count(field, value, min, max)

const span = (
  field: string,
  value: Duration.Duration | null | undefined,
  least: Duration.DurationInput
): Fault | undefined =>
  value === null ||
  value === undefined ||
  (Duration.greaterThanOrEqualTo(value, least) && Duration.lessThanOrEqualTo(value, longest))
    ? undefined
    : [field, `must be from ${Duration.format(least)} to 36500 days, got ${Duration.format(value)}`]

const faultOfBackoff = ({ base, max }: QueueSettings["backoff"]): Fault | undefined =>
  span("backoff.base", base, "1 millis") ??
  span("backoff.max", max, "1 millis") ??
  (Duration.lessThan(max, base) ? ["backoff.max", "must not be shorter than backoff.base"] : undefined)

const faultOfRate = (rate: QueueSettingsPatch["rate"]): Fault | undefined =>
  rate === null || rate === undefined
    ? undefined
    : (count("rate.jobs", rate.jobs, 1, maxRateJobs) ?? span("rate.per", rate.per, "1 millis"))

const faultOfPerKey = (perKey: QueueSettingsPatch["perKey"]): Fault | undefined => {
  if (perKey === null || perKey === undefined) return undefined
  const { concurrency, order } = perKey
  if (!keyOrders.includes(order)) {
    return ["perKey.order", `must be "none", "serial" or "strict", got ${shown(order)}`]
  }
  if (order !== "none" && concurrency !== 1) {
    return ["perKey.concurrency", `must be 1 with order ${order}, which runs one job at a time, got ${concurrency}`]
  }
  return count("perKey.concurrency", concurrency, 1, maxJobsPerKey)
}

const faultOf = (patch: QueueSettingsPatch, backoff: QueueSettings["backoff"]): Fault | undefined =>
  whole("maxWorkers", patch.maxWorkers, 0, maxQueueWorkers) ??
  span("retainDone", patch.retainDone, "0 millis") ??
  span("retainDead", patch.retainDead, "0 millis") ??
  (patch.backoff === undefined ? undefined : faultOfBackoff(backoff)) ??
  faultOfRate(patch.rate) ??
  faultOfPerKey(patch.perKey) ??
  whole("depthCap", patch.depthCap, 1, maxDepthCap)

/** The new value, the old one if the patch omits it, or the default if the patch sets null. */
const patched = <A>(before: A | undefined, change: A | null | undefined): A | undefined =>
  change === undefined ? before : (change ?? undefined)

const sameRate = (left: QueueSettings["rate"], right: QueueSettings["rate"]) =>
  left !== undefined && right !== undefined && left.jobs === right.jobs && Duration.equals(left.per, right.per)

/** Rounds to whole milliseconds. PostgreSQL returns those, so a fraction would differ from the stored value for ever. */
const rounded = (span: Duration.Duration) => Duration.millis(Math.round(Duration.toMillis(span)))

const inWholeMillis = (patch: QueueSettingsPatch): QueueSettingsPatch => ({
  ...patch,
  retainDone: patch.retainDone && rounded(patch.retainDone),
  retainDead: patch.retainDead && rounded(patch.retainDead),
  rate: patch.rate && { ...patch.rate, per: rounded(patch.rate.per) }
})

export const apply = (row: QueueRow, given: QueueSettingsPatch): Either.Either<QueueRow, InvalidSetting> => {
  const patch = inWholeMillis(given)
  const { base, enabled, max } = patch.backoff ?? {}
  const backoff = {
    enabled: enabled ?? row.backoff.enabled,
    base: rounded(base ?? row.backoff.base),
    max: rounded(max ?? row.backoff.max)
  }
  const fault = faultOf(patch, backoff)
  if (fault !== undefined) return Either.left(new InvalidSetting({ field: fault[0], reason: fault[1] }))
  const rate = patched(row.rate, patch.rate)
  return Either.right({
    ...row,
    maxWorkers: patch.maxWorkers ?? row.maxWorkers,
    paused: patch.paused ?? row.paused,
    retainDone: patched(row.retainDone, patch.retainDone),
    retainDead: patched(row.retainDead, patch.retainDead),
    backoff,
    rate,
    // The tokens left under the old rate mean nothing under a new one.
    bucket: sameRate(row.rate, rate) ? row.bucket : undefined,
    perKey: patched(row.perKey, patch.perKey),
    depthCap: patched(row.depthCap, patch.depthCap),
    // An operator who ends a cool-down early considers the upstream recovered.
    ...(patch.throttledUntil === null ? { throttledUntil: undefined, throttleAttempts: 0, calmSince: undefined } : {}),
    revision: row.revision + 1
  })
}

const textOfSpan = (span: Duration.Duration | undefined) => (span === undefined ? "none" : format(span))

/** The declarable settings as text, to compare them and to name them in a log. */
const texts: Readonly<Record<QueueField, (row: QueueRow) => string>> = {
  maxWorkers: ({ maxWorkers }) => String(maxWorkers),
  rate: ({ rate }) => (rate === undefined ? "none" : `${rate.jobs}/${format(rate.per)}`),
  perKey: ({ perKey }) => (perKey === undefined ? "none" : `${perKey.concurrency} ${perKey.order}`),
  depthCap: ({ depthCap }) => String(depthCap ?? "none"),
  retainDone: ({ retainDone }) => textOfSpan(retainDone),
  retainDead: ({ retainDead }) => textOfSpan(retainDead),
  backoff: ({ backoff: { base, enabled, max } }) => `${enabled ? "on" : "off"} ${format(base)} ${format(max)}`
}

/** Applies a declaration to a row. Returns the same row if nothing changes. */
export const declare = (
  row: QueueRow,
  patch: QueueSettingsPatch
): Either.Either<{ readonly after: QueueRow } & DeclaredSettings, InvalidSetting> =>
  Either.flatMap(apply(fresh(row.name), patch), (wanted) => {
    const original = fresh(row.name)
    const fields = (Object.keys(texts) as ReadonlyArray<QueueField>).filter((field) => patch[field] !== undefined)
    const differing = fields.filter((field) => texts[field](row) !== texts[field](wanted))
    const isOperators = (field: QueueField) => texts[field](row) !== (row.declared[field] ?? texts[field](original))
    const set = differing.filter((field) => !isOperators(field))
    const kept = differing
      .filter(isOperators)
      .map((field) => ({ field, value: texts[field](row), declared: texts[field](wanted) }))
    const news = fields.filter((field) => row.declared[field] !== texts[field](wanted))
    if (news.length === 0) return Either.right({ after: row, set, kept })
    const declared = { ...row.declared, ...Object.fromEntries(news.map((field) => [field, texts[field](wanted)])) }
    const changes = Object.fromEntries(set.map((field) => [field, wanted[field] ?? null]))
    return Either.map(apply(row, changes), (after) => ({ after: { ...after, declared }, set, kept }))
  })

/**
 * The row to which a patch of an undeclared queue applies. Only a pause creates a queue, so that operators can pause it
 * before its first job; any other change is more likely a misspelled name. The new row has the revision of a new queue.
 */
export const ahead = (
  name: string,
  patch: QueueSettingsPatch
): Either.Either<QueueRow, QueueNotFound | InvalidSetting> => {
  if (patch.paused !== true) return Either.left(new QueueNotFound({ name }))
  if (!isPlainName(name)) return Either.left(new InvalidSetting({ field: "name", reason: plainNameRule }))
  const row = fresh(name)
  return Either.right({ ...row, revision: row.revision - 1 })
}
