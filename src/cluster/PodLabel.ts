import { createHash } from "node:crypto"
import { Option } from "effect"
import type { PodId } from "../core/Ids.js"

/** What operators call this process. */
export interface LabelParts {
  readonly prefix: Option.Option<string>
  readonly version: Option.Option<string>
  readonly id: Option.Option<string>
}

/** Four digits of a hash: short enough to say, and not the pod id's own first digits, which are the time of its boot. */
const shortId = (pod: PodId): string => createHash("sha256").update(pod).digest("hex").slice(0, 4)

/** `{prefix}-worker-{version}-{id}`, without the version where none is set; no label without a prefix. */
export const of = ({ id, prefix, version }: LabelParts, pod: PodId): string | undefined =>
  Option.isNone(prefix)
    ? undefined
    : [prefix.value, "worker", ...Option.toArray(version), Option.getOrElse(id, () => shortId(pod))].join("-")
