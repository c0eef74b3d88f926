import { Duration } from "effect"
import * as DurationText from "../../core/DurationText.js"
import type { QueueSettings, QueueSettingsPatch } from "./QueueSettings.js"

// The rate limit of a queue that several cells of a fleet have. Each cell enforces its share, and knows nothing of the others.

type Rate = NonNullable<QueueSettings["rate"]>

export const text = ({ jobs, per }: Rate): string => `${jobs} per ${DurationText.format(per)}`

/** The share of a rate limit in one of several cells: the same rate together, with the burst divided as far as it can be. */
export const of = ({ jobs, per }: Rate, cells: number): Rate => {
  const share = Math.max(1, Math.floor(jobs / cells))
  return { jobs: share, per: Duration.millis(Math.ceil((Duration.toMillis(per) * share * cells) / jobs)) }
}

/** The rate limit of several cells that have the same share. */
export const together = (share: QueueSettings["rate"], cells: number): QueueSettings["rate"] =>
  share === undefined ? undefined : { jobs: share.jobs * cells, per: share.per }

/** A change of the whole queue as a change of one of its cells. */
export const inPatch = (patch: QueueSettingsPatch, cells: number): QueueSettingsPatch =>
  cells < 2 || patch.rate === undefined || patch.rate === null ? patch : { ...patch, rate: of(patch.rate, cells) }
