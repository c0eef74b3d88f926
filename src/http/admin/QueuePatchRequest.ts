import { Duration, Schema } from "effect"
import { KeyOrder, type QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"

const Whole = Schema.Number.annotations(WireText.withMessage("must be a number"))
const Span = WireDuration.field("A duration such as 90s, 5m or 1h30m, or milliseconds.")

const orNothing = <S extends Schema.Schema.Any>(schema: S) => WireText.optional(Schema.NullOr(schema))

const Rate = Schema.Struct({ jobs: Whole, per: Span }).annotations({
  message: () => "must be an object with jobs and per, or null"
})

const PerKey = Schema.Struct({
  concurrency: Whole,
  order: WireText.optional(KeyOrder.annotations(WireText.withMessage('must be "none", "serial" or "strict"')))
}).annotations({ message: () => "must be an object with concurrency and optionally order, or null" })

/** Body of `PATCH /api/v1/queues/{name}`. Omitted fields stay unchanged; null restores the default. */
export const QueuePatchRequest = Schema.Struct({
  paused: WireText.flag(),
  maxWorkers: WireText.optional(Whole),
  retainDone: orNothing(Span),
  retainDead: orNothing(Span),
  backoff: WireText.optional(
    Schema.Struct({
      enabled: WireText.flag(),
      base: WireText.optional(Span),
      max: WireText.optional(Span)
    }).annotations({ message: () => "must be an object with any of enabled, base and max" })
  ),
  limits: WireText.optional(
    Schema.Struct({ rate: orNothing(Rate), perKey: orNothing(PerKey), depthCap: orNothing(Whole) }).annotations({
      message: () => "must be an object with any of rate, perKey and depthCap"
    })
  ),
  throttledUntil: WireText.optional(
    Schema.Null.annotations({ ...WireText.withMessage("can only be set to null, which ends the cool-down") })
  )
}).annotations(WireText.body("QueuePatch"))
export type QueuePatchRequest = typeof QueuePatchRequest.Type

const span = (millis: number | null | undefined) =>
  millis === null || millis === undefined ? millis : Duration.millis(millis)

const ofBackoff = ({ base, enabled, max }: NonNullable<QueuePatchRequest["backoff"]>) => ({
  ...(enabled === undefined ? {} : { enabled }),
  ...(base === undefined ? {} : { base: Duration.millis(base) }),
  ...(max === undefined ? {} : { max: Duration.millis(max) })
})

/** Converts the request to a settings patch. The default order of a key's jobs is `none`. */
export const toPatch = (request: QueuePatchRequest): QueueSettingsPatch => {
  const { depthCap, perKey, rate } = request.limits ?? {}
  return {
    paused: request.paused,
    maxWorkers: request.maxWorkers,
    retainDone: span(request.retainDone),
    retainDead: span(request.retainDead),
    backoff: request.backoff === undefined ? undefined : ofBackoff(request.backoff),
    rate: rate === null || rate === undefined ? rate : { jobs: rate.jobs, per: Duration.millis(rate.per) },
    perKey:
      perKey === null || perKey === undefined
        ? perKey
        : { concurrency: perKey.concurrency, order: perKey.order ?? "none" },
    depthCap,
    throttledUntil: request.throttledUntil
  }
}

/** Maps a setting to the request's field. */
export const fieldOf = (field: string): string => (/^(rate|perKey|depthCap)\b/.test(field) ? `limits.${field}` : field)
