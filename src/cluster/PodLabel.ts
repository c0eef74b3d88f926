import { createHash } from "node:crypto"
import { Option } from "effect"
import type { PodId } from "../core/Ids.js"

/** Parts of the label that operators see for this process. */
export interface LabelParts {
  readonly prefix: Option.Option<string>
  readonly version: Option.Option<string>
  readonly id: Option.Option<string>
}

/**
 * Four hex digits of a hash. The first digits of the pod id are its start time, so pods started together would share
 * them.
 */
const shortId = (pod: PodId): string => createHash("sha256").update(pod).digest("hex").slice(0, 4)

/** Returns `{prefix}-worker-{version}-{id}`; the version is omitted if unset. Returns undefined without a prefix. */
export const of = ({ id, prefix, version }: LabelParts, pod: PodId): string | undefined =>
  Option.isNone(prefix)
    ? undefined
    : [prefix.value, "worker", ...Option.toArray(version), Option.getOrElse(id, () => shortId(pod))].join("-")
